package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rwlock"
)

// Redisson 4.7's scripts, written down from a description, without its unlock
// latches. KEYS: the lock, then the Redis channel or the timeouts.
var (
	javaAcquireRead = redis.NewScript(`
		local name, tp, lease, owner, writer = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
		local m = redis.call('hget', name, 'mode')
		if m == false then
			redis.call('hset', name, 'mode', 'read')
			redis.call('hset', name, owner, 1)
			redis.call('set', tp .. ':1', 1)
			redis.call('pexpire', tp .. ':1', lease)
			redis.call('pexpire', name, lease)
			return nil
		end
		if m == 'read' or (m == 'write' and redis.call('hexists', name, writer) == 1) then
			local i = redis.call('hincrby', name, owner, 1)
			redis.call('set', tp .. ':' .. i, 1)
			redis.call('pexpire', tp .. ':' .. i, lease)
			redis.call('pexpire', name, math.max(redis.call('pttl', name), lease))
			return nil
		end
		return redis.call('pttl', name)`)
	javaAcquireWrite = redis.NewScript(`
		local name, lease, writer = KEYS[1], ARGV[1], ARGV[2]
		local m = redis.call('hget', name, 'mode')
		if m == false then
			redis.call('hset', name, 'mode', 'write')
			redis.call('hset', name, writer, 1)
			redis.call('pexpire', name, lease)
			return nil
		end
		if m == 'write' and redis.call('hexists', name, writer) == 1 then
			redis.call('hincrby', name, writer, 1)
			redis.call('pexpire', name, redis.call('pttl', name) + lease)
			return nil
		end
		return redis.call('pttl', name)`)
	javaReleaseRead = redis.NewScript(`
		local name, channel, tp, prefix, owner = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
		local m = redis.call('hget', name, 'mode')
		if m == false then
			redis.call('publish', channel, '0')
			return nil
		end
		if redis.call('hexists', name, owner) == 0 then
			return nil
		end
		local c = redis.call('hincrby', name, owner, -1)
		if c == 0 then
			redis.call('hdel', name, owner)
		end
		redis.call('del', tp .. ':' .. (c + 1))
		if redis.call('hlen', name) > 1 then
			local best = -3
			local fields = redis.call('hkeys', name)
			for _, f in ipairs(fields) do
				local k = tonumber(redis.call('hget', name, f))
				if type(k) == 'number' then
					for i = k, 1, -1 do
						best = math.max(best, redis.call('pttl', prefix .. ':' .. f .. ':rwlock_timeout:' .. i))
					end
				end
			end
			if best > 0 then
				redis.call('pexpire', name, best)
				return 0
			end
			if m == 'write' then
				return 0
			end
		end
		redis.call('del', name)
		redis.call('publish', channel, '0')
		return 1`)
	javaReleaseWrite = redis.NewScript(`
		local name, channel, lease, writer = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
		local m = redis.call('hget', name, 'mode')
		if m == false then
			redis.call('publish', channel, '1')
			return nil
		end
		if m == 'write' then
			if redis.call('hexists', name, writer) == 0 then
				return nil
			end
			local c = redis.call('hincrby', name, writer, -1)
			if c > 0 then
				redis.call('pexpire', name, lease)
				return 0
			end
			redis.call('hdel', name, writer)
			if redis.call('hlen', name) == 1 then
				redis.call('del', name)
				redis.call('publish', channel, '1')
			else
				redis.call('hset', name, 'mode', 'read')
			end
			return 1
		end
		return nil`)
	javaRenewRead = redis.NewScript(`
		local name, prefix, lease, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
		local c = redis.call('hget', name, owner)
		if c == false then
			return 0
		end
		for i = tonumber(c), 1, -1 do
			redis.call('pexpire', prefix .. ':' .. owner .. ':rwlock_timeout:' .. i, lease)
		end
		redis.call('pexpire', name, lease)
		return 1`)
)

// A party is a user of the lock "rw".
type party interface {
	id() string
	// read and write make one attempt, with a lease.
	read(lease time.Duration) bool
	write(lease time.Duration) bool
	// unread and unwrite give the latest hold back; false: it is not held.
	unread() bool
	unwrite() bool
}

// java is a thread of a Java service.
type java struct {
	*testing.T
	rdb   *redis.Client
	owner string
}

func (j *java) id() string { return j.owner }

// acquired reports whether a reply means success, which is nil.
func (j *java) acquired(cmd *redis.Cmd) bool {
	j.Helper()
	if errors.Is(cmd.Err(), redis.Nil) {
		return true
	}
	ttl, err := cmd.Int64()
	require.NoError(j, err)
	require.Positive(j, ttl, "the lease told to Java")
	return false
}

func (j *java) read(lease time.Duration) bool {
	j.Helper()
	return j.acquired(javaAcquireRead.Run(j.Context(), j.rdb, []string{"rw", "{rw}:" + j.owner + ":rwlock_timeout"},
		lease.Milliseconds(), j.owner, j.owner+":write"))
}

func (j *java) write(lease time.Duration) bool {
	j.Helper()
	return j.acquired(javaAcquireWrite.Run(j.Context(), j.rdb, []string{"rw"}, lease.Milliseconds(), j.owner+":write"))
}

func (j *java) released(cmd *redis.Cmd) bool {
	j.Helper()
	if errors.Is(cmd.Err(), redis.Nil) {
		return false
	}
	require.NoError(j, cmd.Err())
	return true
}

func (j *java) unread() bool {
	j.Helper()
	return j.released(javaReleaseRead.Run(j.Context(), j.rdb,
		[]string{"rw", "redisson_rwlock:{rw}", "{rw}:" + j.owner + ":rwlock_timeout", "{rw}"}, j.owner))
}

func (j *java) unwrite() bool {
	j.Helper()
	return j.released(javaReleaseWrite.Run(j.Context(), j.rdb, []string{"rw", "redisson_rwlock:{rw}"}, 30000, j.owner+":write"))
}

func (j *java) renew() bool {
	j.Helper()
	n, err := javaRenewRead.Run(j.Context(), j.rdb, []string{"rw", "{rw}"}, 30000, j.owner).Int()
	require.NoError(j, err)
	return n == 1
}

// goer is one holder of a latchkey client.
type goer struct {
	*testing.T
	rw    *rwlock.RWLock
	ctx   context.Context
	owner string
}

func newGoer(t *testing.T, rdb *redis.Client) *goer {
	c := latchkey.New(redistest.User(t, rdb))
	t.Cleanup(func() { _ = c.Close() })
	ctx := latchkey.WithHolder(t.Context())
	h, _ := latchkey.HolderFrom(ctx)
	return &goer{t, rwlock.New(c, "rw"), ctx, c.ID() + ":" + h.String()}
}

func (g *goer) id() string { return g.owner }

func (g *goer) acquire(l *rwlock.Lock, lease time.Duration) bool {
	g.Helper()
	h, err := l.TryLock(g.ctx, latchkey.Lease(lease))
	if errors.Is(err, latchkey.ErrNotAcquired) || errors.Is(err, latchkey.ErrUpgrade) {
		return false
	}
	require.NoError(g, err)
	require.Equal(g, g.owner, h.HolderID())
	return true
}

func (g *goer) release(l *rwlock.Lock) bool {
	g.Helper()
	err := l.Unlock(g.ctx)
	if errors.Is(err, latchkey.ErrNotHeld) {
		return false
	}
	require.NoError(g, err)
	return true
}

func (g *goer) read(lease time.Duration) bool { g.Helper(); return g.acquire(g.rw.ReadLock(), lease) }

func (g *goer) write(lease time.Duration) bool { g.Helper(); return g.acquire(g.rw.WriteLock(), lease) }
func (g *goer) unread() bool                   { g.Helper(); return g.release(g.rw.ReadLock()) }
func (g *goer) unwrite() bool                  { g.Helper(); return g.release(g.rw.WriteLock()) }

// A wire is a server on which A and B share the lock "rw".
type wire struct {
	*scripted
	a, b   party
	aJava  bool
	heard  func() string
	reason string
}

// onWire runs f for each combination of Java and Go as A and B, on both kinds
// of server.
func onWire(t *testing.T, f func(w *wire)) {
	newParty := func(t *testing.T, rdb *redis.Client, what, owner string) party {
		if what == "Java" {
			return &java{t, rdb, owner}
		}
		return newGoer(t, rdb)
	}
	onBoth(t, func(s *scripted) {
		for _, a := range []string{"Java", "Go"} {
			for _, b := range []string{"Java", "Go"} {
				s.do("FLUSHALL")
				w := &wire{scripted: s, aJava: a == "Java", reason: a + " and " + b}
				w.a, w.b = newParty(s.T, s.rdb, a, "6fa459ea-ee8a-3ca4-894e-db77e160355e:1"), newParty(s.T, s.rdb, b, "16fd2706-8baf-433b-82eb-8c7fada847da:42")
				w.heard = s.listen("redisson_rwlock:{rw}")
				f(w)
			}
		}
	})
}

// is checks everything in Redis: the hash, as alternating fields and values
// with A and B for the holders, its lease, and the timeouts.
func (w *wire) is(fields string, lease time.Duration, timeouts ...string) {
	w.Helper()
	long := strings.NewReplacer("A", w.a.id(), "B", w.b.id())
	want, keys := map[string]string{}, []string{}
	for _, f := range strings.Fields(fields) {
		name, value, _ := strings.Cut(f, "=")
		want[long.Replace(name)] = value
	}
	require.Equal(w, want, w.rdb.HGetAll(w.Context(), "rw").Val(), "%s: the hash", w.reason)
	if fields != "" {
		keys = append(keys, "rw")
		require.Equal(w, lease.Milliseconds(), rounded(w.pttl("rw")), "%s: the lease of the hash", w.reason)
	}
	for _, t := range timeouts {
		key, ms, _ := strings.Cut(t, "=")
		who, n, _ := strings.Cut(key, "#")
		key = "{rw}:" + long.Replace(who) + ":rwlock_timeout:" + n
		require.Equal(w, "1", w.rdb.Get(w.Context(), key).Val(), "%s: the timeout %s", w.reason, key)
		require.Equal(w, ms, fmt.Sprint(rounded(w.pttl(key))), "%s: the timeout %s", w.reason, key)
		keys = append(keys, key)
	}
	require.ElementsMatch(w, keys, w.rdb.Keys(w.Context(), "*").Val(), "%s: the keys", w.reason)
}

func (w *wire) yes(ok bool) { w.Helper(); require.True(w, ok, w.reason) }
func (w *wire) no(ok bool)  { w.Helper(); require.False(w, ok, w.reason) }
func (w *wire) hears(want string) {
	w.Helper()
	require.Equal(w, want, w.heard(), "%s: messages", w.reason)
}

const half = 30 * time.Second

// The vectors of the wire description, §19.4, with A and B in all combinations.

func TestWireTwoReaders(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.read(half))
		w.yes(w.b.read(half))
		w.is("mode=read A=1 B=1", half, "A#1=30000", "B#1=30000")
		w.no(w.a.write(half))
		w.hears("")

		w.do("DEL", "{rw}:"+w.b.id()+":rwlock_timeout:1")
		w.yes(w.a.unread())
		w.is("", 0)
		w.hears("0")
		w.no(w.b.unread())
	})
}

func TestWireDowngrade(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.write(half))
		w.is("mode=write A:write=1", half)
		w.no(w.b.read(half))
		w.no(w.b.write(half))
		w.yes(w.a.read(half))
		w.is("mode=write A:write=1 A=1", half, "A#1=30000")
		w.no(w.b.read(half))
		w.hears("")
		w.yes(w.a.unwrite())
		w.is("mode=read A=1", half, "A#1=30000")
		if w.aJava {
			w.hears("")
		} else {
			w.hears("1") // so that waiting readers start at once; Java tolerates it
		}
		w.no(w.b.write(half))
		w.yes(w.b.read(half))
		w.is("mode=read A=1 B=1", half, "A#1=30000", "B#1=30000")
		w.yes(w.b.unread())
		w.is("mode=read A=1", half, "A#1=30000")
		w.hears("")
		w.yes(w.a.unread())
		w.is("", 0)
		w.hears("0")
	})
}

func TestWireWriteReentry(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.write(half))
		w.yes(w.a.write(half))
		if w.aJava {
			w.is("mode=write A:write=2", 2*half)
		} else {
			w.is("mode=write A:write=2", half) // leases do not add up: the longer counts
		}
		w.no(w.b.write(half))
		w.yes(w.a.unwrite())
		w.is("mode=write A:write=1", half)
		w.hears("")
		w.yes(w.a.unwrite())
		w.is("", 0)
		w.hears("1")
	})
}

func TestWireLongestLease(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.read(2 * half))
		w.yes(w.b.read(5 * time.Second))
		w.is("mode=read A=1 B=1", 2*half, "A#1=60000", "B#1=5000")
		w.yes(w.a.unread())
		w.is("mode=read B=1", 5*time.Second, "B#1=5000")
		if w.aJava {
			w.hears("")
		} else {
			w.hears("0") // the lease ends sooner than the waiters have heard
		}
		w.yes(w.b.unread())
		w.hears("0")
	})
}

func TestWireUpgrade(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.read(half))
		w.no(w.a.write(half))
		w.is("mode=read A=1", half, "A#1=30000")
		w.yes(w.a.unread())
		w.is("", 0)
	})
}

func TestWireUnlockOfFreeLock(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.read(half))
		w.do("FLUSHALL")
		w.no(w.a.unread())
		w.hears("0")
		w.yes(w.a.write(half))
		w.do("FLUSHALL")
		w.no(w.a.unwrite())
		w.hears("1")
		w.is("", 0)
	})
}

// Nested read holds under a write lock, in both orders.
func TestWireNestedReadUnderWrite(t *testing.T) {
	onWire(t, func(w *wire) {
		w.yes(w.a.write(half))
		w.yes(w.a.read(5 * time.Second))
		w.yes(w.a.read(5 * time.Second))
		w.is("mode=write A:write=1 A=2", half, "A#1=5000", "A#2=5000")
		w.yes(w.a.unread())
		lease := half
		if w.aJava {
			lease = 5 * time.Second // theirs shrinks
		}
		w.is("mode=write A:write=1 A=1", lease, "A#1=5000")
		w.yes(w.a.unread())
		w.is("mode=write A:write=1", lease)
		w.no(w.b.read(half))
		w.hears("")
		w.yes(w.a.unwrite())
		w.hears("1")
		w.is("", 0)
	})
}

// TestWireTakeTurns checks that each side makes the other wait, and wakes it.
func TestWireTakeTurns(t *testing.T) {
	s := redistest.Start(t)
	j := &java{t, s.Client(t), "16fd2706-8baf-433b-82eb-8c7fada847da:42"}
	c := latchkey.New(redistest.User(t, s.Client(t)))
	defer c.Close()
	rw := rwlock.New(c, "rw")
	for _, l := range []*rwlock.Lock{rw.ReadLock(), rw.WriteLock()} {
		for range 3 {
			require.True(t, j.write(half))
			got := l.LockAsync(t.Context())
			redistest.Until(t, "the waiter to hear", func() bool { return c.Stats().Subscriptions == 1 })
			require.True(t, j.unwrite())
			start := time.Now()
			r := <-got
			require.NoError(t, r.Err)
			require.Less(t, time.Since(start), time.Second, "from Java's unlock to our grant")
			require.False(t, j.write(half))
			require.NoError(t, r.Value.Unlock(t.Context()))
		}
	}
	require.True(t, j.read(half))
	got := rw.WriteLock().LockAsync(t.Context())
	redistest.Until(t, "the waiter to hear", func() bool { return c.Stats().Subscriptions == 1 })
	require.True(t, j.unread())
	r := <-got
	require.NoError(t, r.Err)
	require.NoError(t, r.Value.Unlock(t.Context()))
	require.Empty(t, j.rdb.Keys(t.Context(), "*").Val())
}

// Names with a hash tag of their own, and a client's key prefix.
func TestWireNames(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, tt := range []struct{ prefix, name, key, timeout string }{
			{"", "foo", "foo", "{foo}:%s:rwlock_timeout:1"},
			{"", "a{b}", "a{b}", "a{b}:%s:rwlock_timeout:1"},
			{"app:", "foo", "app:foo", "{app:foo}:%s:rwlock_timeout:1"},
			{"app:", "foo:write", "app:foo:write", "{app:foo:write}:%s:rwlock_timeout:1"},
		} {
			c := latchkey.New(redistest.User(s, s.rdb), latchkey.WithKeyPrefix(tt.prefix))
			rw := rwlock.New(c, tt.name)
			require.Equal(s, tt.name, rw.Name())
			h, err := rw.ReadLock().Lock(s.Context())
			require.NoError(s, err)
			timeout := fmt.Sprintf(tt.timeout, h.HolderID())
			require.ElementsMatch(s, []string{tt.key, timeout}, s.rdb.Keys(s.Context(), "*").Val())
			_, err = rwlock.New(c, tt.name).WriteLock().TryLock(s.Context())
			require.ErrorIs(s, err, latchkey.ErrNotAcquired)
			require.ErrorContains(s, err, "rwlock: write-trylock "+fmt.Sprintf("%q", tt.name))
			require.NoError(s, h.Unlock(s.Context()))
			h, err = rw.WriteLock().Lock(s.Context())
			require.NoError(s, err)
			require.Equal(s, []string{h.HolderID() + ":write", "mode"}, slices.Sorted(maps.Keys(s.rdb.HGetAll(s.Context(), tt.key).Val())))
			require.NoError(s, h.Unlock(s.Context()))
			require.Empty(s, s.rdb.Keys(s.Context(), "*").Val())
			require.NoError(s, c.Close())
		}
	})
}
