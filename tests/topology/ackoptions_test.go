package topology

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// replicas answers WAIT or WAITAOF in a bubble as if there were replicas.
type replicas struct {
	mu          sync.Mutex
	waits       [][]string // the arguments of each
	have, local int
}

// set sets how many replicas have everything from now on, and how many
// primaries on disk.
func (r *replicas) set(have, local int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have, r.local = have, local
}

// asked returns the arguments of the requests since its last call.
func (r *replicas) asked() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.waits = nil }()
	return r.waits
}

func replicated(t testing.TB, b *redistest.Env, command string) *replicas {
	t.Helper()
	require.NoError(t, b.Redis.Ping(t.Context()).Err()) // it is up
	r := &replicas{have: 2, local: 1}
	// Only what a server knows can be replaced, so it is done before the server sees it.
	b.Mini.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != command {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waits = append(r.waits, args)
		if command == "WAITAOF" {
			c.WriteLen(2)
			c.WriteInt(r.local)
		}
		c.WriteInt(r.have)
		return true
	})
	plain := newClient(t, b.Client()) // a script that is not known is sent twice
	for kind := range objects {
		take(t, kind, plain, "known").give(t)
		require.NoError(t, b.Redis.FlushAll(t.Context()).Err())
	}
	return r
}

// A renewal that too few replicas confirm neither extends the hold nor loses
// it. It is tried again.
func TestAckRenewals(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		r := replicated(t, b, "WAIT")
		plain := newClient(t, b.Client(), latchkey.WithReplicaAck(2, time.Second))
		first, err := rlock.New(plain, "plain").Lock(t.Context())
		require.NoError(t, err)
		b.Advance(time.Minute)
		require.Equal(t, [][]string{{"2", "1000"}}, r.asked(), "only the grant")
		require.NoError(t, first.Unlock(t.Context()))
		require.Empty(t, r.asked())

		c := newClient(t, b.Client(), latchkey.WithReplicaAck(2, time.Second, latchkey.AckRenewals))
		h, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		r.asked()
		b.Advance(11 * time.Second)
		require.Len(t, r.asked(), 1, "the renewal")
		require.Greater(t, h.Remaining(), 25*time.Second)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.Len(t, r.asked(), 1)
		require.Greater(t, h.Remaining(), 55*time.Second)

		r.set(1, 1)
		require.ErrorIs(t, h.Extend(t.Context(), time.Hour), latchkey.ErrNotReplicated)
		require.Less(t, h.Remaining(), time.Minute, "believed in for no longer than the replicas know")
		b.Advance(45 * time.Second)
		select {
		case <-h.Lost():
			require.FailNow(t, "lost before the time of which they know was over")
		default:
		}
		r.set(2, 1)
		b.Advance(5 * time.Second)
		require.Greater(t, h.Remaining(), 20*time.Second, "tried again, and confirmed")

		r.set(0, 1)
		b.Advance(31 * time.Second)
		select {
		case <-h.Lost():
		default:
			require.FailNow(t, "not lost, though no replica knows of it")
		}
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
		r.set(2, 1)
	})
}

// A release that too few replicas confirm returns an error, and is still a
// release.
func TestAckReleases(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		r := replicated(t, b, "WAIT")
		c := newClient(t, b.Client(), latchkey.WithReplicaAck(2, time.Second, latchkey.AckReleases))
		for kind, take := range objects {
			r.set(2, 1)
			got, err := take(t.Context(), c, kind)
			require.NoError(t, err, kind)
			r.asked()
			require.NoError(t, got.release(t.Context()))
			require.Len(t, r.asked(), 1, kind)

			got, err = take(t.Context(), c, kind)
			require.NoError(t, err, kind)
			r.set(1, 1)
			err = got.release(t.Context())
			require.ErrorIs(t, err, latchkey.ErrNotReplicated, kind)
			require.ErrorContains(t, err, "1 of 2 replicas", kind)
			var e *latchkey.Error
			require.True(t, errors.As(err, &e))
			require.False(t, e.MaybeApplied(), "it was applied for certain")
			require.Zero(t, c.Stats().Held)
			r.set(2, 1)
			got, err = take(t.Context(), newClient(t, b.Client()), kind)
			require.NoError(t, err, kind)
			require.NoError(t, got.release(t.Context()))
		}
		s := semaphore.New(c, "permits")
		_, err := s.TrySetPermits(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, s.Acquire(t.Context(), 1))
		l := countdownlatch.New(c, "latch")
		_, err = l.TrySetCount(t.Context(), 2)
		require.NoError(t, err)
		r.set(0, 1)
		released, err := s.ReleaseIfExists(t.Context(), 1)
		require.ErrorIs(t, err, latchkey.ErrNotReplicated)
		require.True(t, released)
		require.ErrorIs(t, l.CountDown(t.Context()), latchkey.ErrNotReplicated)
		n, err := l.Count(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, n, "counted once")
		n, err = l.Count(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		available, err := s.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, available)
	})
}

// The wire form of WAITAOF, and the results of its replies.
func TestAckDisk(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		r := replicated(t, b, "WAITAOF")
		for min, want := range map[int]string{0: "0 of 1 primary and 2 of 0 replicas", 2: "0 of 1 primary and 2 of 2 replicas"} {
			c := newClient(t, b.Client(), latchkey.WithReplicaAck(min, 250*time.Millisecond, latchkey.AckDisk))
			r.asked()
			r.set(2, 1)
			l := rlock.New(c, "a")
			h, err := l.TryLock(t.Context())
			require.NoError(t, err)
			require.Equal(t, [][]string{{"1", strconv.Itoa(min), "250"}}, r.asked())
			require.NoError(t, h.Unlock(t.Context()))

			r.set(2, 0)
			_, err = l.TryLock(t.Context())
			notReplicated(t, err)
			require.ErrorContains(t, err, want)
			locked, err := l.IsLocked(t.Context())
			require.NoError(t, err)
			require.False(t, locked)
		}
	})
}

// A server without WAITAOF, or without an append-only file, is distinguished
// from one that has not written yet.
func TestAckDiskRefused(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, "waitaof")
	rdb := s.Client(t)
	l := rlock.New(newClient(t, rdb, latchkey.WithReplicaAck(0, time.Second, latchkey.AckDisk)), "a")
	_, err := l.TryLock(t.Context())
	notReplicated(t, err)
	if rdb.Do(t.Context(), "waitaof", 0, 0, 1).Err() != nil {
		require.ErrorContains(t, err, "AckDisk needs WAITAOF, of Redis 7.2")
	} else {
		require.ErrorContains(t, err, "appendonly")
	}
	locked, err := l.IsLocked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
}

// With real replicas: a frozen replica delays releases, for as long as the
// option says.
func TestAckReleasesOfReplicas(t *testing.T) {
	primary := redistest.Start(t)
	primary.Allow(t, "wait")
	replica := redistest.StartReplica(t, primary)
	c := newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, 400*time.Millisecond, latchkey.AckReleases, latchkey.AckRenewals))
	var got *latchkey.Hold
	redistest.Until(t, "the replica", func() bool {
		h, err := rlock.New(c, "a").Lock(t.Context())
		got = h
		return err == nil
	})
	require.NoError(t, got.Extend(t.Context(), time.Minute))
	require.NoError(t, got.Unlock(t.Context()))
	require.Equal(t, []string{"0"}, replica.Do(t, "EXISTS", "a"), "at the replica, at once")

	redistest.Until(t, "the lock", func() bool {
		h, err := rlock.New(c, "a").Lock(t.Context())
		got = h
		return err == nil
	})
	replica.Freeze()
	defer replica.Thaw()
	start := time.Now()
	err := got.Unlock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotReplicated)
	require.GreaterOrEqual(t, time.Since(start), 400*time.Millisecond)
	require.Equal(t, []string{"0"}, primary.Do(t, "EXISTS", "a"))
}
