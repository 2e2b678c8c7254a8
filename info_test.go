package latchkey_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// newClient returns a client that is closed with the test.
func newClient(t testing.TB, rdb redis.UniversalClient, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, rdb), opts...)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func inspect(t testing.TB, c *latchkey.Client, name string) latchkey.Info {
	t.Helper()
	info, err := c.Info(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, name, info.Name)
	return info
}

// near checks a lease that has just begun.
func near(t testing.TB, want, got time.Duration) {
	t.Helper()
	require.InDelta(t, want, got, float64(5*time.Second))
}

func host(t testing.TB) string {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

func TestInfoTellsWhoHolds(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb, latchkey.WithKeyPrefix("app:"))
	other := newClient(t, rdb, latchkey.WithKeyPrefix("app:"))
	ctx := t.Context()

	free := inspect(t, c, "job")
	require.WithinDuration(t, time.Now(), free.At, time.Second)
	free.At = time.Time{}
	require.Equal(t, latchkey.Info{Name: "job"}, free, "a free name is no error")

	h, err := rlock.New(c, "job", rlock.Fenced()).Lock(ctx, latchkey.Label("nightly  @ \x1b[31m\n"))
	require.NoError(t, err)
	info := inspect(t, other, "job")
	require.Equal(t, latchkey.KindLock, info.Kind)
	require.Len(t, info.Holders, 1)
	holder := info.Holders[0]
	require.WithinDuration(t, info.At, holder.Since, time.Second)
	near(t, 30*time.Second, holder.Lease)
	require.Equal(t, info.Lease, holder.Lease)
	holder.Since, holder.Lease = time.Time{}, 0
	require.Equal(t, latchkey.HolderInfo{
		ID: h.HolderID(), Label: "nightly  @ \x1b[31m\n", Host: host(t), PID: os.Getpid(), Count: 1,
	}, holder)
	require.Equal(t, h.Token(), info.Token)

	require.NoError(t, h.Unlock(ctx))
	require.Equal(t, []string{"redisson_lock_token:{app:job}"}, rdb.Keys(ctx, "*").Val(), "the label goes with the lock")
	info = inspect(t, c, "job")
	require.Equal(t, latchkey.KindFree, info.Kind)
	require.Equal(t, h.Token(), info.Token)
}

// Without a label a holder costs nothing, so other clients know no more of it
// than of Java's holders. Its own client knows it.
func TestInfoWithoutLabel(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c, other := newClient(t, rdb), newClient(t, rdb)
	m := s.Monitor(t)
	h, err := rlock.New(c, "job").Lock(t.Context())
	require.NoError(t, err)
	for _, line := range m.Lines() {
		require.NotContains(t, line.String(), "label:", "an acquire without a label has nothing of one")
	}
	require.Equal(t, []string{"job"}, rdb.Keys(t.Context(), "*").Val())

	theirs := inspect(t, other, "job").Holders[0]
	require.Equal(t, latchkey.HolderInfo{ID: h.HolderID(), Count: 1, Lease: theirs.Lease}, theirs)
	ours := inspect(t, c, "job").Holders[0]
	require.Equal(t, os.Getpid(), ours.PID)
	require.WithinDuration(t, time.Now(), ours.Since, time.Second)
	require.NoError(t, h.Unlock(t.Context()))
}

// A lock that goes from waiter to waiter in memory is shown with the one who has
// it, by the client that knows.
func TestInfoOfALockHandedOn(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := newClient(t, b.Redis, latchkey.WithHandOver(time.Minute))
		l := rlock.New(c, "job")
		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		waiter := l.LockAsync(t.Context())
		time.Sleep(time.Second)
		require.NoError(t, h.Unlock(t.Context()))
		second := <-waiter
		require.NoError(t, second.Err)
		require.Equal(t, int64(1), b.Redis.Exists(t.Context(), "job").Val())
		require.Contains(t, b.Redis.HGetAll(t.Context(), "job").Val(), h.HolderID(), "it was not handed on in memory")
		info := inspect(t, c, "job")
		require.Equal(t, second.Value.HolderID(), info.Holders[0].ID)
		require.Equal(t, os.Getpid(), info.Holders[0].PID)
		require.NoError(t, second.Value.Unlock(t.Context()))
	})
}

func TestInfoKinds(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c, other := newClient(t, rdb), newClient(t, rdb)
	ctx := t.Context()

	t.Run("fair", func(t *testing.T) {
		h, err := fairlock.New(c, "fair").Lock(ctx)
		require.NoError(t, err)
		require.Equal(t, latchkey.KindLock, inspect(t, c, "fair").Kind, "without a queue they look alike")
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// A client knows its waiters a moment before Redis does.
		queued := func() int64 { return rdb.LLen(ctx, "redisson_lock_queue:{fair}").Val() }
		second := fairlock.New(c, "fair").LockAsync(ctx, latchkey.Label("second"))
		redistest.Until(t, "the second one", func() bool { return queued() == 1 })
		third := fairlock.New(other, "fair").LockAsync(ctx, latchkey.Label("third"))
		redistest.Until(t, "the third one", func() bool { return queued() == 2 })
		require.Len(t, inspect(t, c, "fair").Waiters, 2)

		info := inspect(t, c, "fair")
		require.Equal(t, latchkey.KindFair, info.Kind)
		require.Equal(t, h.HolderID(), info.Holders[0].ID)
		ours, theirs := info.Waiters[0], info.Waiters[1]
		require.True(t, strings.HasPrefix(ours.ID, c.ID()+":"), ours.ID)
		require.True(t, strings.HasPrefix(theirs.ID, other.ID()+":"), theirs.ID)
		require.Equal(t, "second", ours.Label)
		require.WithinDuration(t, info.At, ours.Since, time.Second)
		require.WithinDuration(t, info.At.Add(15*time.Second), ours.Deadline, 2*time.Second, "while its client is alive")
		require.Equal(t, "third", theirs.Label)
		require.WithinDuration(t, info.At, theirs.Since, time.Second)
		plain := fairlock.New(other, "fair").LockAsync(ctx)
		redistest.Until(t, "the fourth one", func() bool { return len(inspect(t, c, "fair").Waiters) == 3 })
		require.True(t, inspect(t, c, "fair").Waiters[2].Since.IsZero(), "nothing in Redis says since when another client waits")
		_, err = fairlock.New(other, "fair").TryLock(ctx, latchkey.Wait(100*time.Millisecond), latchkey.Label("gives up"))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.Len(t, rdb.Keys(ctx, "latchkey_label:{fair}:*").Val(), 2, "who leaves the queue takes his label along")

		require.NoError(t, h.Unlock(ctx))
		got := <-second
		require.NoError(t, got.Err)
		require.Equal(t, "second", inspect(t, other, "fair").Holders[0].Label)
		require.NoError(t, got.Value.Unlock(ctx))
		got = <-third
		require.NoError(t, got.Err)
		require.NoError(t, got.Value.Unlock(ctx))
		got = <-plain
		require.NoError(t, got.Err)
		require.NoError(t, got.Value.Unlock(ctx))
		require.Equal(t, latchkey.KindFree, inspect(t, c, "fair").Kind)
		require.Empty(t, rdb.Keys(ctx, "*fair*").Val())
	})

	t.Run("readwrite", func(t *testing.T) {
		rw := rwlock.New(c, "rw")
		a, err := rw.ReadLock().Lock(ctx, latchkey.Lease(20*time.Second), latchkey.Label("a"))
		require.NoError(t, err)
		a2, err := rw.ReadLock().Lock(a.Context(), latchkey.Lease(50*time.Second))
		require.NoError(t, err)
		b, err := rw.ReadLock().Lock(ctx, latchkey.Lease(30*time.Second))
		require.NoError(t, err)
		info := inspect(t, other, "rw")
		require.Equal(t, latchkey.KindReadWrite, info.Kind)
		require.Len(t, info.Holders, 2)
		for _, h := range info.Holders {
			require.Equal(t, "read", h.Mode)
			if h.ID == a.HolderID() {
				require.Equal(t, "a", h.Label)
				require.Equal(t, 2, h.Count)
				near(t, 50*time.Second, h.Lease)
			} else {
				require.Equal(t, b.HolderID(), h.ID)
				near(t, 30*time.Second, h.Lease)
			}
		}
		for _, h := range []*latchkey.Hold{a2, a, b} {
			require.NoError(t, h.Unlock(ctx))
		}

		w, err := rw.WriteLock().Lock(ctx)
		require.NoError(t, err)
		r, err := rw.ReadLock().Lock(w.Context())
		require.NoError(t, err)
		info = inspect(t, other, "rw")
		require.Len(t, info.Holders, 2)
		require.Equal(t, w.HolderID(), info.Holders[0].ID)
		require.Equal(t, "read", info.Holders[0].Mode)
		require.Equal(t, w.HolderID()+":write", info.Holders[1].ID)
		require.Equal(t, "write", info.Holders[1].Mode)
		near(t, 30*time.Second, info.Holders[1].Lease)
		require.NoError(t, r.Unlock(ctx))
		require.NoError(t, w.Unlock(ctx))
	})

	t.Run("multilock", func(t *testing.T) {
		h, err := multilock.NewGroup(c, "group", "a", "b").Lock(ctx, latchkey.Label("both"))
		require.NoError(t, err)
		h2, err := multilock.NewGroup(c, "group", "c").Lock(ctx, latchkey.Lease(time.Minute))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		second := multilock.NewGroup(c, "group", "b", "c").LockAsync(ctx)
		redistest.Until(t, "the second one", func() bool { return len(inspect(t, c, "group").Waiters) == 1 })
		require.Regexp(t, "^"+c.ID()+`:\d+$`, inspect(t, c, "group").Waiters[0].ID)

		info := inspect(t, other, "group")
		require.Equal(t, latchkey.KindMultiLock, info.Kind)
		require.Len(t, info.Holders, 3)
		labels := map[string]int{}
		for _, holder := range info.Holders {
			require.Equal(t, 1, holder.Count)
			require.Len(t, holder.Value, 22)
			labels[holder.Label]++
			if holder.Label == "" {
				near(t, time.Minute, holder.Lease)
				require.Equal(t, h2.HolderID(), holder.ID)
			} else {
				near(t, 30*time.Second, holder.Lease)
				require.Equal(t, h.HolderID(), holder.ID)
			}
		}
		require.Equal(t, map[string]int{"both": 2, "": 1}, labels)
		for _, holder := range inspect(t, c, "group").Holders {
			require.Equal(t, os.Getpid(), holder.PID, "a client knows its own")
		}
		cancel()
		require.Error(t, (<-second).Err)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, h2.Unlock(t.Context()))
	})

	t.Run("semaphores", func(t *testing.T) {
		plain := semaphore.New(c, "sem")
		_, err := plain.TrySetPermits(ctx, 3)
		require.NoError(t, err)
		info := inspect(t, other, "sem")
		require.Equal(t, latchkey.KindCounter, info.Kind, "nothing says of what")
		require.Equal(t, int64(3), info.Count)
		require.Equal(t, time.Duration(-1), info.Lease)

		permits := permitsemaphore.New(c, "permits")
		_, err = permits.TrySetPermits(ctx, 3)
		require.NoError(t, err)
		p, err := permits.Acquire(ctx, latchkey.Lease(time.Minute))
		require.NoError(t, err)
		forever, err := permits.Acquire(ctx, permitsemaphore.Permanent())
		require.NoError(t, err)
		info = inspect(t, other, "permits")
		require.Equal(t, latchkey.KindPermitSemaphore, info.Kind)
		require.Equal(t, int64(1), info.Count)
		require.Len(t, info.Holders, 2)
		require.Equal(t, p.ID(), info.Holders[0].ID)
		near(t, time.Minute, info.Holders[0].Lease)
		require.Equal(t, latchkey.HolderInfo{ID: forever.ID(), Count: 1, Lease: -1}, info.Holders[1])
		require.NoError(t, p.Release(ctx))
		require.NoError(t, forever.Release(ctx))
	})

	t.Run("listeners", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		latch := countdownlatch.New(c, "latch")
		_, err := latch.TrySetCount(ctx, 2)
		require.NoError(t, err)
		require.Equal(t, latchkey.KindCounter, inspect(t, other, "latch").Kind)
		done := latch.AwaitAsync(ctx)
		empty := semaphore.New(c, "empty").AcquireAsync(ctx, 1)
		h, err := rlock.New(c, "lock").Lock(ctx)
		require.NoError(t, err)
		second := rlock.New(c, "lock").LockAsync(ctx, latchkey.Label("me"))
		for name, kind := range map[string]latchkey.Kind{"latch": latchkey.KindLatch, "empty": latchkey.KindFree, "lock": latchkey.KindLock} {
			redistest.Until(t, name, func() bool { return inspect(t, other, name).Listeners == 1 })
			info := inspect(t, other, name)
			require.Equal(t, kind, info.Kind, name)
			require.Empty(t, info.Waiters, "Redis knows nothing of them")
			require.Len(t, inspect(t, c, name).Waiters, 1, "but their client does")
		}
		require.Equal(t, "me", inspect(t, c, "lock").Waiters[0].Label)
		require.NoError(t, latch.CountDown(ctx))
		require.NoError(t, latch.CountDown(ctx))
		require.NoError(t, <-done)
		_, err = latch.TrySetCount(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, latchkey.KindLatch, inspect(t, other, "latch").Kind, "a count has ended lately")

		_, err = semaphore.New(c, "empty").TrySetPermits(ctx, 0)
		require.NoError(t, err)
		require.Equal(t, latchkey.KindSemaphore, inspect(t, other, "empty").Kind)
		cancel()
		require.Error(t, <-empty)
		require.Error(t, (<-second).Err)
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// Keys that other clients, above all Java, leave in Redis, written by hand.
func TestInfoOfOthers(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	ctx := t.Context()
	do := func(args ...any) {
		t.Helper()
		require.NoError(t, rdb.Do(ctx, args...).Err())
	}
	const java = "0b7c9a3e-5d1f-4f7e-9a51-3f2f9a6f1c11"

	do("HSET", "rw", "mode", "read", java+":1", 2)
	info := inspect(t, c, "rw")
	require.Equal(t, latchkey.KindReadWrite, info.Kind)
	require.Equal(t, []latchkey.HolderInfo{{ID: java + ":1", Count: 2, Mode: "read"}}, info.Holders, "a dead reader has no lease")
	require.Equal(t, time.Duration(-1), info.Lease)

	do("HSET", "tx", java+":7:0a1b", 1)
	require.Equal(t, java+":7:0a1b", inspect(t, c, "tx").Holders[0].ID, "a lock inside a transaction")

	now := time.Now()
	const one, two = "k0Jx1v2bTnq5yZ8m4cWd3A", "zZ/1v2b+nq5yZ8m4cWd3Aw"
	do("HSET", "group",
		one, java+":1", one+":"+java+":1:expire_time", now.Add(time.Minute).UnixMilli(), one+":"+java+":1:lock_count", 2,
		two, java+":2", two+":"+java+":2:expire_time", now.Add(-time.Minute).UnixMilli(), two+":"+java+":2:lock_count", 1)
	info = inspect(t, c, "group")
	require.Equal(t, latchkey.KindMultiLock, info.Kind)
	require.Len(t, info.Holders, 1, "the lease of the other is over")
	near(t, time.Minute, info.Holders[0].Lease)
	require.Equal(t, latchkey.HolderInfo{ID: java + ":1", Count: 2, Value: one, Lease: info.Holders[0].Lease}, info.Holders[0])

	raw := strings.Repeat("\x00\xff", 8)
	do("SET", "permits", 1)
	do("ZADD", "{permits}:timeout", now.Add(time.Minute).UnixMilli(), raw, int64(922337203685477), strings.Repeat("ab", 16), now.Add(-time.Second).UnixMilli(), "0123456789abcdef")
	info = inspect(t, c, "permits")
	require.Equal(t, latchkey.KindPermitSemaphore, info.Kind)
	require.Equal(t, int64(2), info.Count, "one whose lease is over is available")
	require.Len(t, info.Holders, 2)
	require.Equal(t, hex.EncodeToString([]byte(raw)), info.Holders[0].ID)
	require.Equal(t, latchkey.HolderInfo{ID: strings.Repeat("ab", 16), Count: 1, Lease: -1}, info.Holders[1])

	do("RPUSH", "redisson_lock_queue:{queue}", java+":1", java+":2")
	do("ZADD", "redisson_lock_timeout:{queue}", now.Add(time.Minute).UnixMilli(), java+":1")
	info = inspect(t, c, "queue")
	require.Equal(t, latchkey.KindFair, info.Kind, "free, but with a queue")
	require.Equal(t, []latchkey.WaiterInfo{{ID: java + ":1", Deadline: time.UnixMilli(now.Add(time.Minute).UnixMilli())}, {ID: java + ":2"}}, info.Waiters)

	do("HSET", "lock", java+":1", 1)
	do("SET", "latchkey_label:{lock}:"+java+":1", "text of before")
	require.Equal(t, "text of before", inspect(t, c, "lock").Holders[0].Label, "what nobody of ours has written is shown")
}

func TestInfoOfOtherKeys(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	ctx := t.Context()
	for name, args := range map[string][]any{
		"a text":             {"SET", "", "x"},
		"a float":            {"SET", "", "1.5"},
		"a long number":      {"SET", "", strings.Repeat("1", 100)},
		"a profile":          {"HSET", "", "name", "x"},
		"a profile of pairs": {"HSET", "", "a:b", "x"},
		"a mode":             {"HSET", "", "mode", "dark"},
		"a mode and more":    {"HSET", "", "mode", "read", "name", "x"},
		"an owner only":      {"HSET", "", "abc", "uuid:1"},
		"an end":             {"HSET", "", "a:expire_time", "soon"},
		"no hold":            {"HSET", "", "uuid:1", "0"},
		"a list":             {"RPUSH", "", "x"},
		"a set":              {"SADD", "", "x"},
		"a sorted set":       {"ZADD", "", "1", "x"},
		"a stream":           {"XADD", "", "*", "a", "b"},
	} {
		args[1] = name
		require.NoError(t, rdb.Do(ctx, args...).Err())
		_, err := c.Info(ctx, name)
		require.ErrorIs(t, err, latchkey.ErrKeyConflict, name)
	}
	_, err := c.Info(ctx, "")
	require.ErrorContains(t, err, "empty")

	// Side keys of another kind are not taken for anything.
	require.NoError(t, rdb.HSet(ctx, "lock", "uuid:1", 1).Err())
	for _, side := range []string{
		"redisson_lock_token:{lock}", "redisson_lock_queue:{lock}", "redisson_lock_timeout:{lock}", "latchkey_queue:{lock}",
		"{lock}:timeout", "latchkey_ended:{lock}", "latchkey_label:{lock}:uuid:1",
	} {
		require.NoError(t, rdb.SAdd(ctx, side, "x").Err())
	}
	require.NoError(t, rdb.Del(ctx, "redisson_lock_queue:{lock}").Err())
	require.NoError(t, rdb.RPush(ctx, "redisson_lock_queue:{lock}", "uuid:2").Err())
	info := inspect(t, c, "lock")
	require.Equal(t, latchkey.KindFair, info.Kind)
	require.Equal(t, []latchkey.HolderInfo{{ID: "uuid:1", Count: 1, Lease: -1}}, info.Holders)
	require.Equal(t, []latchkey.WaiterInfo{{ID: "uuid:2"}}, info.Waiters)
}

func TestInfoOfManyHolders(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	const readers = 700 // more than one script reads the labels of
	fields := []any{"mode", "read"}
	pipe := rdb.Pipeline()
	for i := range readers {
		id := fmt.Sprintf("java:%03d", i)
		fields = append(fields, id, 3)
		pipe.Set(t.Context(), fmt.Sprintf("{rw}:%s:rwlock_timeout:2", id), 1, time.Duration(i+100)*time.Second)
		pipe.Set(t.Context(), "latchkey_label:{rw}:"+id, id, 0)
	}
	pipe.HSet(t.Context(), "rw", fields...)
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	info := inspect(t, c, "rw")
	require.Len(t, info.Holders, readers)
	for i, h := range info.Holders {
		require.Equal(t, fmt.Sprintf("java:%03d", i), h.ID)
		require.Equal(t, h.ID, h.Label)
		near(t, time.Duration(i+100)*time.Second, h.Lease)
	}

	// Nobody has so many holds, and nobody waits for them to be looked at.
	require.NoError(t, rdb.HSet(t.Context(), "rw", "java:000", int64(1e15)).Err())
	require.Len(t, inspect(t, c, "rw").Holders, readers)
}

// Without the right to ask about Redis channels, Info shows everything except
// the listeners.
func TestInfoWithFewRights(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "viewer", "on", ">pw", "~*", "+@all", "-pubsub")
	c := newClient(t, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "viewer", "pw" }))
	require.NoError(t, s.Client(t).HSet(t.Context(), "job", "uuid:1", 1).Err())
	info := inspect(t, c, "job")
	require.Equal(t, -1, info.Listeners)
	require.Len(t, info.Holders, 1)
}

func TestInfoInACluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	c := newClient(t, cl.Client(t), latchkey.WithKeyPrefix("app:"))
	for i := range 8 {
		for _, name := range []string{fmt.Sprint("job", i), fmt.Sprintf("{job%d}:part", i)} {
			h, err := rlock.New(c, name).Lock(t.Context(), latchkey.Label("me"))
			require.NoError(t, err)
			info := inspect(t, c, name)
			require.Equal(t, h.HolderID(), info.Holders[0].ID)
			require.Equal(t, "me", info.Holders[0].Label)
			require.NoError(t, h.Unlock(t.Context()))
		}
	}

	mode := latchkey.PubSubPlain
	if redistest.Sharded() {
		mode = latchkey.PubSubSharded
	}
	other := newClient(t, cl.Client(t), latchkey.WithKeyPrefix("app:"), latchkey.WithPubSub(mode))
	h, err := rlock.New(c, "job").Lock(t.Context())
	require.NoError(t, err)
	waiter := rlock.New(other, "job").LockAsync(t.Context())
	redistest.Until(t, "the listener", func() bool { return inspect(t, c, "job").Listeners == 1 })
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, (<-waiter).Value.Unlock(t.Context()))

	_, err = c.Info(t.Context(), "a{b")
	require.ErrorContains(t, err, "cannot be used in a Redis Cluster")
}
