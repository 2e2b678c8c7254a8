package rwlock_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rwlock"
)

// lease is the default lease, and window is how long it is trusted.
const (
	lease  = 30 * time.Second
	window = lease - lease/100 - 2*time.Millisecond
	slack  = 2 * time.Millisecond // added by waiters to the lease they were told
)

// A bubble is fake time with a Redis in it.
type bubble struct {
	*testing.T
	*redistest.Env
	ctx   context.Context
	began time.Time
}

func inBubble(t *testing.T, f func(b *bubble)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		// Whoever waits for ever fails instead.
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		f(&bubble{t, env, ctx, time.Now()})
	})
}

// client returns a client with a connection of its own.
func (b *bubble) client(opts ...latchkey.Option) *latchkey.Client {
	return b.clientOn(b.Client(), opts...)
}

func (b *bubble) clientOn(rdb *redis.Client, opts ...latchkey.Option) *latchkey.Client {
	c := latchkey.New(rdb, opts...)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// lock returns the lock "a" on a new client.
func (b *bubble) lock(opts ...rwlock.Option) *rwlock.RWLock {
	return rwlock.New(b.client(), "a", opts...)
}

// at returns the time since the beginning.
func (b *bubble) at() time.Duration { return time.Since(b.began) }

func (b *bubble) must(h *latchkey.Hold, err error) *latchkey.Hold {
	b.Helper()
	require.NoError(b, err)
	return h
}

func (b *bubble) unlock(h *latchkey.Hold) {
	b.Helper()
	require.NoError(b, h.Unlock(b.ctx))
}

// later acquires on a goroutine of its own. When later returns, that goroutine
// has finished or is blocked.
func (b *bubble) later(l *rwlock.Lock, opts ...latchkey.LockOption) <-chan result {
	return b.laterCtx(b.ctx, l, opts...)
}

func (b *bubble) laterCtx(ctx context.Context, l *rwlock.Lock, opts ...latchkey.LockOption) <-chan result {
	ch := make(chan result, 1)
	go func() {
		h, err := l.Lock(ctx, opts...)
		ch <- result{h, err, b.at()}
	}()
	synctest.Wait()
	return ch
}

type result struct {
	hold *latchkey.Hold
	err  error
	at   time.Duration
}

// got returns the hold of a later, which must have it now.
func (b *bubble) got(ch <-chan result) *latchkey.Hold {
	b.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		require.NoError(b, r.err)
		return r.hold
	default:
		require.FailNow(b, "it has not got the lock")
		return nil
	}
}

// waits checks that a later is still waiting.
func (b *bubble) waits(ch <-chan result) {
	b.Helper()
	synctest.Wait()
	require.Empty(b, ch, "it got the lock, or an error")
}

// empty checks that no key is left.
func (b *bubble) empty() {
	b.Helper()
	require.Empty(b, b.Redis.Keys(b.ctx, "*").Val(), "keys left")
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw, other := b.lock(), b.lock()
		r1, r2 := b.must(rw.ReadLock().TryLock(b.ctx)), b.must(other.ReadLock().TryLock(b.ctx))
		for _, l := range []*rwlock.Lock{rw.WriteLock(), other.WriteLock()} {
			_, err := l.TryLock(b.ctx)
			require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		}
		b.unlock(r1)
		_, err := rw.WriteLock().TryLock(b.ctx)
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		b.unlock(r2)
		w := b.must(rw.WriteLock().TryLock(b.ctx))
		for _, l := range []*rwlock.Lock{rw.WriteLock(), other.WriteLock(), rw.ReadLock(), other.ReadLock()} {
			_, err := l.TryLock(b.ctx)
			require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		}
		b.unlock(w)
		b.empty()
	})
}

// A reader behind a writer waits like any waiter.
func TestReaderWaits(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		r, w := rwlock.New(c, "a").ReadLock(), b.must(b.lock().WriteLock().Lock(b.ctx))

		start := time.Now()
		_, err := r.TryLock(b.ctx, latchkey.Wait(70*time.Millisecond))
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		require.Equal(b, 70*time.Millisecond, time.Since(start))

		start = time.Now()
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		_, err = r.Lock(ctx)
		cancel()
		require.ErrorIs(b, err, context.DeadlineExceeded)
		require.Equal(b, time.Second, time.Since(start))

		// Those behind the head are readers too, and leave as they like.
		head := b.later(r)
		ctx, cancel = context.WithCancel(b.ctx)
		middle := b.laterCtx(ctx, r)
		tail := b.later(r)
		cancel()
		synctest.Wait()
		require.ErrorIs(b, (<-middle).err, context.Canceled)
		b.waits(head)
		b.waits(tail)
		b.unlock(w)
		b.unlock(b.got(head))
		b.unlock(b.got(tail))
		require.Zero(b, c.Stats().Waiting)

		w = b.must(b.lock().WriteLock().Lock(b.ctx))
		head, tail = b.later(r), b.later(r)
		require.NoError(b, c.Close())
		require.ErrorIs(b, (<-head).err, latchkey.ErrClosed)
		require.ErrorIs(b, (<-tail).err, latchkey.ErrClosed)
		b.unlock(w)
		b.empty()
	})
}

// RW-07: a writer's release lets in all readers, not only one.
func TestWriterReleaseWakesAllReaders(t *testing.T) {
	for how, free := range map[string]func(*bubble, *rwlock.RWLock, *latchkey.Hold){
		"Unlock": func(b *bubble, _ *rwlock.RWLock, h *latchkey.Hold) { b.unlock(h) },
		"ForceUnlock": func(b *bubble, rw *rwlock.RWLock, _ *latchkey.Hold) {
			freed, err := rw.WriteLock().ForceUnlock(b.ctx)
			require.NoError(b, err)
			require.True(b, freed)
		},
		"downgrade": func(b *bubble, rw *rwlock.RWLock, h *latchkey.Hold) {
			b.must(rw.ReadLock().Lock(h.Context()))
			b.unlock(h)
		},
		"downgrade by ForceUnlock": func(b *bubble, rw *rwlock.RWLock, h *latchkey.Hold) {
			b.must(rw.ReadLock().Lock(h.Context()))
			freed, err := rw.WriteLock().ForceUnlock(b.ctx)
			require.NoError(b, err)
			require.True(b, freed)
		},
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				rw := b.lock()
				w := b.must(rw.WriteLock().Lock(b.ctx))
				var readers []<-chan result
				for range 3 {
					other := b.lock()
					for range 30 {
						readers = append(readers, b.later(other.ReadLock()))
					}
				}
				b.Advance(7 * time.Second)
				for _, ch := range readers {
					b.waits(ch)
				}
				before := b.at()
				free(b, rw, w)
				for _, ch := range readers {
					h := b.got(ch)
					require.NoError(b, h.Context().Err())
				}
				require.Equal(b, before, b.at())
			})
		})
	}
}

// Readers that have waited for a writer do not come in one by one, however many
// come and go meanwhile.
func TestReadersGoInTogether(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const roundTrip, readers = 10 * time.Millisecond, 40
		rdb := b.Client()
		link := b.Link(rdb)
		link.HoldFor(roundTrip)
		link.OnCommand(func(args []string) redistest.Act {
			if strings.HasPrefix(strings.ToLower(args[0]), "eval") {
				return redistest.Hold
			}
			return redistest.Pass
		})
		w := b.must(b.lock().WriteLock().Lock(b.ctx))
		l := rwlock.New(b.clientOn(rdb), "a").ReadLock()
		ctx, cancel := context.WithCancel(b.ctx)
		var reads atomic.Int64
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				for {
					h, err := l.Lock(ctx)
					if err != nil {
						return
					}
					reads.Add(1)
					assert.NoError(b, h.Unlock(b.ctx))
				}
			})
		}
		b.Advance(time.Second)
		require.Zero(b, reads.Load())
		b.unlock(w)
		b.Advance(100 * roundTrip)
		cancel()
		all.Wait()
		require.Greater(b, reads.Load(), int64(400), "one by one it would be one for each of the 100 round trips")
	})
}

// Only the release of the last reader wakes a writer.
func TestLastReaderWakesWriter(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		r1, r2 := b.must(rw.ReadLock().Lock(b.ctx)), b.must(rw.ReadLock().Lock(b.ctx))
		w := b.later(b.lock().WriteLock())
		b.Advance(time.Minute)
		b.unlock(r1)
		b.Advance(time.Minute)
		b.waits(w)
		b.unlock(r2)
		b.unlock(b.got(w))
		b.empty()
	})
}

func TestDowngrade(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw, other := b.lock(), b.lock()
		w := b.must(rw.WriteLock().Lock(b.ctx))
		r := b.must(rw.ReadLock().Lock(w.Context()))
		require.Equal(b, w.HolderID(), r.HolderID())
		reader, writer := b.later(other.ReadLock()), b.later(other.WriteLock())
		b.Advance(time.Minute)
		b.waits(reader)
		b.unlock(w)
		b.unlock(b.got(reader)) // although a writer waits
		b.waits(writer)

		// RW-05: what is left is renewed.
		b.Advance(4 * lease)
		require.Positive(b, r.Remaining())
		select {
		case <-r.Lost():
			require.Fail(b, "lost")
		default:
		}
		b.waits(writer)
		b.unlock(r)
		b.unlock(b.got(writer))
		b.empty()
	})
}

func TestDowngradeInOneCall(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw, other := b.lock(), b.lock()
		w := b.must(rw.WriteLock().Lock(b.ctx))
		reader, writer := b.later(other.ReadLock()), b.later(other.WriteLock())
		ctx, cancel := context.WithCancel(b.ctx)
		r := b.must(rw.Downgrade(ctx, w, latchkey.Lease(time.Hour)))
		require.Equal(b, w.HolderID(), r.HolderID())
		require.ErrorIs(b, w.Context().Err(), context.Canceled)
		require.NoError(b, r.Context().Err())
		b.unlock(b.must(rw.ReadLock().Lock(r.Context())))
		_, err := rw.WriteLock().Lock(r.Context())
		require.ErrorIs(b, err, latchkey.ErrUpgrade)
		b.unlock(b.got(reader)) // although a writer waits
		b.waits(writer)
		cancel()
		require.ErrorIs(b, r.Context().Err(), context.Canceled)
		b.unlock(r)
		b.unlock(b.got(writer))

		for what, h := range map[string]*latchkey.Hold{
			"nothing": nil, "what was given back": w, "a read lock": r,
			"another's": b.must(rwlock.New(b.client(), "b").WriteLock().Lock(b.ctx)),
		} {
			_, err := rw.Downgrade(b.ctx, h)
			require.Error(b, err, what)
		}
		_, err = rw.Downgrade(b.ctx, w)
		require.ErrorIs(b, err, latchkey.ErrNotHeld)

		// One that is lost, and nobody knows yet, is not held.
		w = b.must(rw.WriteLock().Lock(b.ctx))
		_, err = other.WriteLock().ForceUnlock(b.ctx)
		require.NoError(b, err)
		_, err = rw.Downgrade(b.ctx, w)
		require.ErrorIs(b, err, latchkey.ErrLeaseLost)
		// And one that another writer has taken over makes it wait for that if it may.
		w = b.must(rw.WriteLock().Lock(b.ctx))
		_, err = other.WriteLock().ForceUnlock(b.ctx)
		require.NoError(b, err)
		successor := b.must(other.WriteLock().Lock(b.ctx))
		start := time.Now()
		_, err = rw.Downgrade(b.ctx, w)
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		require.Zero(b, time.Since(start))
		_, err = rw.Downgrade(b.ctx, w, latchkey.Wait(time.Second))
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		require.ErrorIs(b, w.Unlock(b.ctx), latchkey.ErrLeaseLost)
		b.unlock(successor)
	})
}

// RW-01: the release of a read lock under the write lock leaves the write lock
// unchanged.
func TestNestedReadUnderWrite(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw, other := b.lock(), b.lock()
		ctx := latchkey.WithHolder(b.ctx)
		w := b.must(rw.WriteLock().Lock(ctx, latchkey.Lease(time.Minute)))
		r1 := b.must(rw.ReadLock().Lock(ctx, latchkey.Lease(5*time.Second)))
		r2 := b.must(rw.ReadLock().Lock(ctx, latchkey.Lease(5*time.Second)))
		b.unlock(r1)
		b.unlock(r2)
		ttl, err := rw.WriteLock().TTL(b.ctx)
		require.NoError(b, err)
		require.Equal(b, time.Minute, ttl, "the lease of the writer")
		reader := b.later(other.ReadLock())
		b.Advance(30 * time.Second)
		b.waits(reader)
		require.NoError(b, w.Context().Err())
		// Write re-entry, with and without a read hold in between.
		again := b.must(rw.WriteLock().Lock(ctx))
		r := b.must(rw.ReadLock().Lock(ctx))
		third := b.must(rw.WriteLock().Lock(ctx))
		for _, h := range []*latchkey.Hold{third, again, r} {
			b.unlock(h)
			b.waits(reader)
		}
		b.unlock(w)
		b.unlock(b.got(reader))
		b.empty()
	})
}

// A writer that reads does not stand in the line of readers that wait for it.
func TestWriterOvertakesWaitingReaders(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		w := b.must(rw.WriteLock().Lock(b.ctx))
		reader := b.later(rw.ReadLock())
		before := b.at()
		r := b.must(rw.ReadLock().Lock(w.Context()))
		require.Equal(b, before, b.at())
		b.unlock(r)
		b.waits(reader)
		b.unlock(w)
		b.unlock(b.got(reader))
		b.empty()
	})
}

// RW-06: no holder of the read lock waits for itself.
func TestUpgradeIsRefused(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		ctx := latchkey.WithHolder(b.ctx)
		r := b.must(rw.ReadLock().Lock(ctx))
		r2 := b.must(rw.ReadLock().Lock(b.ctx)) // another one, to which the same happens
		for _, ctx := range []context.Context{ctx, r.Context(), r2.Context()} {
			before := b.at()
			_, err := rw.WriteLock().Lock(ctx)
			require.ErrorIs(b, err, latchkey.ErrUpgrade)
			_, err = rw.WriteLock().TryLock(ctx)
			require.ErrorIs(b, err, latchkey.ErrUpgrade)
			require.NotErrorIs(b, err, latchkey.ErrNotAcquired)
			_, err = rw.WriteLock().TryLock(ctx, latchkey.Wait(time.Hour))
			require.ErrorIs(b, err, latchkey.ErrUpgrade)
			require.Equal(b, before, b.at(), "refused at once")
		}
		// Not even as the only reader, and not for having had the write lock once.
		b.unlock(r2)
		_, err := rw.WriteLock().Lock(ctx)
		require.ErrorIs(b, err, latchkey.ErrUpgrade)
		b.unlock(r)
		w := b.must(rw.WriteLock().Lock(ctx))
		r = b.must(rw.ReadLock().Lock(ctx))
		b.unlock(w)
		_, err = rw.WriteLock().Lock(ctx)
		require.ErrorIs(b, err, latchkey.ErrUpgrade)
		b.unlock(r)
		b.empty()
	})
}

// A holder that gets the read lock on one goroutine while it waits for the
// write lock on another gets ErrUpgrade.
func TestUpgradeByTwoGoroutines(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		ctx := latchkey.WithHolder(b.ctx)
		other := b.must(b.lock().ReadLock().Lock(b.ctx))
		w := b.laterCtx(ctx, rw.WriteLock())
		b.Advance(2 * time.Second) // the writer's sign is over
		before := b.at()
		r := b.must(rw.ReadLock().Lock(ctx))
		res := <-w
		require.ErrorIs(b, res.err, latchkey.ErrUpgrade)
		require.LessOrEqual(b, res.at-before, 5*time.Second, "within a recheck")
		b.unlock(r)
		b.unlock(other)
		b.Advance(10 * time.Second)
		b.empty()
	})
}

// RW-02: each reader has a lease of its own.
func TestLeasesOfReaders(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw, other := b.lock(), b.lock()
		long := b.must(rw.ReadLock().Lock(b.ctx, latchkey.Lease(10*time.Second)))
		shortly := b.must(other.ReadLock().Lock(b.ctx, latchkey.Lease(time.Second)))
		writer := b.later(b.lock().WriteLock())
		<-shortly.Lost()
		require.Equal(b, time.Second-10*time.Millisecond-2*time.Millisecond, b.at())
		b.Advance(5*time.Second - b.at())
		require.NoError(b, long.Context().Err())
		ttl, err := rw.ReadLock().TTL(b.ctx)
		require.NoError(b, err)
		require.Equal(b, 5*time.Second, ttl)
		b.waits(writer)
		<-long.Lost()
		res := <-writer
		require.NoError(b, res.err)
		require.GreaterOrEqual(b, res.at, 10*time.Second)
		require.LessOrEqual(b, res.at, 10*time.Second+slack)
		b.unlock(res.hold)
		b.Advance(5 * time.Second)
		b.empty()
	})
}

// RW-04: a dead reader keeps nobody out beyond its lease, whatever others do.
func TestDeadReaderBesideLiveOnes(t *testing.T) {
	for _, tt := range []struct {
		name string
		live time.Duration // how long the live reader reads
		want time.Duration // when the writer gets in
	}{
		{"who leave before its lease is over", 5 * time.Second, lease},
		{"who stay longer", 10 * time.Minute, 10 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				rdb := b.Client()
				c := b.clientOn(rdb, latchkey.WithUnlockTimeout(time.Second))
				dead := b.must(rwlock.New(c, "a").ReadLock().Lock(b.ctx))
				live := b.must(b.lock().ReadLock().Lock(b.ctx))
				b.Partition(rdb)
				// No sign, which would end the writer's sleeps.
				writer := b.later(b.lock(rwlock.WriterPreference(0)).WriteLock())
				b.Advance(tt.live)
				require.NoError(b, live.Context().Err())
				b.unlock(live)
				res := <-writer
				require.NoError(b, res.err)
				require.GreaterOrEqual(b, res.at, tt.want)
				require.LessOrEqual(b, res.at, tt.want+slack)
				<-dead.Lost()
				b.unlock(res.hold)
				b.empty()
			})
		})
	}
}

// The hash of a lock whose readers are dead may live on, because Redisson's
// renewal sets it to 30 s for whoever is in it. The lock is free all the same.
func TestDeadReadersWhoseHashLives(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		b.must(b.lock().ReadLock().Lock(b.ctx, latchkey.Lease(10*time.Second)))
		writer := b.later(rw.WriteLock())
		require.True(b, b.Redis.PExpire(b.ctx, "a", time.Hour).Val())
		res := <-writer
		require.NoError(b, res.err)
		require.LessOrEqual(b, res.at, 10*time.Second+slack)
		b.unlock(res.hold)

		b.must(b.lock().ReadLock().Lock(b.ctx, latchkey.Lease(10*time.Second)))
		require.True(b, b.Redis.PExpire(b.ctx, "a", time.Hour).Val())
		b.Advance(10 * time.Second)
		locked, err := rw.ReadLock().IsLocked(b.ctx)
		require.NoError(b, err)
		require.False(b, locked)
		r := b.must(rw.ReadLock().Lock(b.ctx))
		b.unlock(r) // takes the dead with it
		b.empty()
	})
}

// A Java reader that is renewed keeps the hash, but no dead Go reader.
func TestDeadReaderBesideJava(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := rwlock.New(b.client(), "rw")
		j := &java{b.T, b.Redis, "16fd2706-8baf-433b-82eb-8c7fada847da:42"}
		require.True(b, j.read(lease))
		b.must(rw.ReadLock().Lock(b.ctx, latchkey.Lease(20*time.Second)))
		writer := b.later(rw.WriteLock())
		for range 6 {
			b.Advance(10 * time.Second)
			require.True(b, j.renew())
		}
		b.waits(writer)
		require.True(b, j.unread())
		b.unlock(b.got(writer))

		// The other way round: a Java reader has died, and ours is renewed.
		require.True(b, j.read(lease))
		r := b.must(rw.ReadLock().Lock(b.ctx))
		b.Advance(3 * lease)
		require.NoError(b, r.Context().Err())
		writer = b.later(rw.WriteLock())
		b.unlock(r)
		b.unlock(b.got(writer))
		require.False(b, j.renew())
		b.empty()
	})
}

// RW-03: readers are renewed with their own timeouts, by one script for each
// client and period, and never with those of others.
func TestRenewal(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		rw := rwlock.New(c, "a")
		var holds []*latchkey.Hold
		for range 40 {
			h := b.must(rw.ReadLock().Lock(b.ctx))
			holds = append(holds, h, b.must(rw.ReadLock().Lock(h.Context())))
		}
		for i := range 10 {
			holds = append(holds, b.must(rwlock.New(c, fmt.Sprint("w", i)).WriteLock().Lock(b.ctx, latchkey.Label("me"))))
		}
		// Java's reader, who does not renew.
		b.Redis.HSet(b.ctx, "a", "java:1", 1)
		b.Redis.Set(b.ctx, "{a}:java:1:rwlock_timeout:1", 1, 2*lease)
		before := b.Commands("evalsha")
		b.Advance(4 * lease)
		require.EqualValues(b, 12, b.Commands("evalsha")-before, "one script each 10 s")
		require.EqualValues(b, 12*50, c.Stats().Renewals)
		require.Zero(b, b.Redis.Exists(b.ctx, "{a}:java:1:rwlock_timeout:1").Val(), "another's timeout was renewed")
		ttl, err := rw.ReadLock().TTL(b.ctx)
		require.NoError(b, err)
		require.Equal(b, lease, ttl)
		for _, h := range holds {
			require.NoError(b, h.Context().Err())
		}
		for _, h := range holds {
			b.unlock(h)
		}
		b.empty()
	})
}

// A renewal during the Unlock of one of two holds does not take the other for
// lost.
func TestRenewalMeetsUnlock(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rdb := b.Client()
		rw := rwlock.New(b.clientOn(rdb), "a")
		outer := b.must(rw.ReadLock().Lock(b.ctx))
		inner := b.must(rw.ReadLock().Lock(outer.Context()))
		link := b.Link(rdb)
		link.OnNext(1, "evalsha", redistest.Late)
		b.Advance(10 * time.Second) // the renewal is under way
		require.EqualValues(b, 1, link.Count(redistest.Late))
		b.unlock(inner)
		link.Release()
		synctest.Wait()
		require.NoError(b, outer.Context().Err())
		b.Advance(2 * lease)
		require.NoError(b, outer.Context().Err())
		b.unlock(outer)
		b.empty()
	})
}

// A reader whose timeout has gone is lost even if its field exists, because a
// writer may come in at any time.
func TestReaderWithoutTimeoutIsLost(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		h := b.must(rw.ReadLock().Lock(b.ctx))
		other := b.must(b.lock().ReadLock().Lock(b.ctx))
		require.EqualValues(b, 1, b.Redis.Del(b.ctx, "{a}:"+h.HolderID()+":rwlock_timeout:1").Val())
		<-h.Lost()
		require.Equal(b, 10*time.Second, b.at(), "at the next renewal")
		require.ErrorIs(b, context.Cause(h.Context()), latchkey.ErrLeaseLost)
		require.ErrorIs(b, h.Unlock(b.ctx), latchkey.ErrLeaseLost)
		b.unlock(other)
		b.empty()
	})
}

// readFor reads for d again and again until ctx ends, and returns the longest
// wait.
func (b *bubble) readFor(ctx context.Context, l *rwlock.Lock, d time.Duration) <-chan time.Duration {
	ch := make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		for {
			start := time.Now()
			h, err := l.Lock(ctx)
			if err != nil {
				ch <- longest
				return
			}
			longest = max(longest, time.Since(start))
			time.Sleep(d)
			_ = h.Unlock(ctx)
		}
	}()
	return ch
}

// RW-08: a writer gets in within its bound although there is always a reader.
func TestWriterIsNotStarved(t *testing.T) {
	stream := func(b *bubble, ctx context.Context, n int, d time.Duration) (waits []<-chan time.Duration) {
		for range n {
			waits = append(waits, b.readFor(ctx, b.lock().ReadLock(), d))
			b.Advance(d / time.Duration(n))
		}
		return waits
	}
	t.Run("short reads", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			ctx, cancel := context.WithCancel(b.ctx)
			waits := stream(b, ctx, 5, 500*time.Millisecond)
			rw := b.lock()
			for range redistest.Many(10, 3) {
				start := time.Now()
				w := b.must(rw.WriteLock().Lock(b.ctx))
				require.LessOrEqual(b, time.Since(start), 500*time.Millisecond, "the wait of the writer")
				time.Sleep(time.Second)
				b.unlock(w)
				time.Sleep(time.Second)
			}
			cancel()
			for _, ch := range waits {
				// Behind one writer's wait, and its hold.
				require.LessOrEqual(b, <-ch, 1500*time.Millisecond+slack, "the longest wait of a reader")
			}
		})
	})
	t.Run("while the sign may not be given", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			ctx, cancel := context.WithCancel(b.ctx)
			waits := stream(b, ctx, 5, 1500*time.Millisecond)
			// A sign of somebody who has gone, just over.
			b.Redis.Set(b.ctx, "latchkey_writer:{a}", fmt.Sprint(time.Now().UnixMilli()-2000, " ", time.Now().UnixMilli()), 2*time.Second)
			start := time.Now()
			b.unlock(b.must(b.lock().WriteLock().Lock(b.ctx)))
			require.LessOrEqual(b, time.Since(start), 6*time.Second)
			cancel()
			for _, ch := range waits {
				<-ch
			}
		})
	})
	t.Run("reads that last longer than a request may", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			ctx, cancel := context.WithCancel(b.ctx)
			waits := stream(b, ctx, 5, 12*time.Second)
			start := time.Now()
			b.unlock(b.must(b.lock(rwlock.WriterPreference(15 * time.Second)).WriteLock().Lock(b.ctx)))
			require.LessOrEqual(b, time.Since(start), 45*time.Second)
			cancel()
			for _, ch := range waits {
				require.LessOrEqual(b, <-ch, 15*time.Second+slack, "the longest wait of a reader")
			}
		})
	})
	t.Run("without a preference it is", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			ctx, cancel := context.WithCancel(b.ctx)
			waits := stream(b, ctx, 5, 500*time.Millisecond)
			_, err := b.lock(rwlock.WriterPreference(0)).WriteLock().TryLock(b.ctx, latchkey.Wait(time.Minute))
			require.ErrorIs(b, err, latchkey.ErrNotAcquired)
			cancel()
			for _, ch := range waits {
				require.Zero(b, <-ch, "no reader had to wait")
			}
		})
	})
}

// A writer that cannot have the lock does not keep readers out for ever.
func TestReadersAreNotStarved(t *testing.T) {
	inBubble(t, func(b *bubble) {
		long := b.must(b.lock().ReadLock().Lock(b.ctx))
		ctx, cancel := context.WithCancel(b.ctx)
		writers := []<-chan result{b.laterCtx(ctx, b.lock().WriteLock()), b.laterCtx(ctx, b.lock().WriteLock())}
		rw := b.lock()
		kept, tried := 0, 0
		rounds := redistest.Many(300, 100)
		for i := range rounds {
			time.Sleep(time.Duration(i%7) * 37 * time.Millisecond)
			if h, err := rw.ReadLock().TryLock(b.ctx); err != nil {
				require.ErrorIs(b, err, latchkey.ErrNotAcquired)
				tried++
			} else {
				b.unlock(h)
			}
			start := time.Now()
			h := b.must(rw.ReadLock().Lock(b.ctx))
			require.LessOrEqual(b, time.Since(start), 2*time.Second+slack, "the wait of a reader")
			if time.Since(start) > 0 {
				kept++
			}
			// Whoever has it, has it.
			b.unlock(b.must(rw.ReadLock().TryLock(h.Context())))
			b.unlock(h)
		}
		require.Positive(b, kept, "nobody stood back")
		require.Positive(b, tried, "nobody stood back")
		require.Less(b, kept, rounds/2)
		cancel()
		for _, ch := range writers {
			require.ErrorIs(b, (<-ch).err, context.Canceled)
		}
		// What a writer leaves that gives up lapses.
		b.unlock(long)
		b.Advance(4 * time.Second)
		b.empty()
	})
}

// A single attempt leaves no sign. The sign of a bounded wait ends with the
// wait.
func TestSignEndsWithTheWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		r := b.must(rw.ReadLock().Lock(b.ctx))
		_, err := rw.WriteLock().TryLock(b.ctx)
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		b.unlock(b.must(b.lock().ReadLock().TryLock(b.ctx)))
		_, err = rw.WriteLock().TryLock(b.ctx, latchkey.Wait(50*time.Millisecond))
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		b.unlock(b.must(b.lock().ReadLock().TryLock(b.ctx)))
		b.unlock(r)
		b.Advance(50 * time.Millisecond)
		b.empty()
	})
}

func TestStatePerHalf(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		ctx := latchkey.WithHolder(b.ctx)
		me, _ := latchkey.HolderFrom(ctx)
		check := func(what string, l *rwlock.Lock, count int, ttl time.Duration) {
			b.Helper()
			locked, err := l.IsLocked(b.ctx)
			require.NoError(b, err)
			require.Equal(b, ttl > 0, locked, "%s: IsLocked", what)
			n, err := l.HoldCount(ctx)
			require.NoError(b, err)
			require.Equal(b, count, n, "%s: HoldCount", what)
			held, err := l.IsHeldBy(b.ctx, me)
			require.NoError(b, err)
			require.Equal(b, count > 0, held, "%s: IsHeldBy", what)
			left, err := l.TTL(b.ctx)
			require.NoError(b, err)
			require.Equal(b, ttl, left, "%s: TTL", what)
		}
		both := func(what string, reads int, readTTL time.Duration, writes int, writeTTL time.Duration) {
			b.Helper()
			check(what+", read half", rw.ReadLock(), reads, readTTL)
			check(what+", write half", rw.WriteLock(), writes, writeTTL)
		}
		both("free", 0, 0, 0, 0)
		other := b.must(rw.ReadLock().Lock(b.ctx, latchkey.Lease(time.Minute)))
		both("another reads", 0, time.Minute, 0, 0)
		r := b.must(rw.ReadLock().Lock(ctx, latchkey.Lease(20*time.Second)))
		r2 := b.must(rw.ReadLock().Lock(ctx, latchkey.Lease(40*time.Second)))
		both("both read", 2, time.Minute, 0, 0)
		b.unlock(other)
		both("I read", 2, 40*time.Second, 0, 0)
		b.unlock(r)
		both("once", 1, 40*time.Second, 0, 0)
		b.unlock(r2)
		w := b.must(rw.WriteLock().Lock(ctx, latchkey.Lease(time.Minute)))
		both("I write", 0, 0, 1, time.Minute)
		r = b.must(rw.ReadLock().Lock(ctx, latchkey.Lease(20*time.Second)))
		both("I write and read", 1, 20*time.Second, 1, time.Minute)
		b.Advance(20 * time.Second)
		both("my read hold is over", 0, 0, 1, 40*time.Second)
		require.ErrorIs(b, r.Unlock(b.ctx), latchkey.ErrLeaseLost)
		b.unlock(w)
		w = b.must(rw.WriteLock().Lock(b.ctx, latchkey.Lease(time.Minute)))
		both("another writes", 0, 0, 0, time.Minute)
		b.unlock(w)
		both("free", 0, 0, 0, 0)
		b.empty()
	})
}

func TestForceUnlockPerHalf(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw, other := b.lock(), b.lock()
		force := func(l *rwlock.Lock, want bool) {
			b.Helper()
			freed, err := l.ForceUnlock(b.ctx)
			require.NoError(b, err)
			require.Equal(b, want, freed)
		}
		w := b.must(rw.WriteLock().Lock(b.ctx))
		force(other.ReadLock(), false)
		r := b.must(rw.ReadLock().Lock(w.Context()))
		force(other.ReadLock(), true)
		require.ErrorIs(b, r.Unlock(b.ctx), latchkey.ErrLeaseLost)
		require.NoError(b, w.Context().Err(), "the write lock stays")
		_, err := other.ReadLock().TryLock(b.ctx)
		require.ErrorIs(b, err, latchkey.ErrNotAcquired)
		r = b.must(rw.ReadLock().Lock(w.Context()))
		force(other.WriteLock(), true)
		r2 := b.must(other.ReadLock().TryLock(b.ctx))
		<-w.Lost()
		require.Less(b, b.at(), time.Second, "looked for since the read hold was lost")
		require.Positive(b, r.Remaining(), "the read lock stays")
		force(other.WriteLock(), false)
		force(other.ReadLock(), true)
		<-r.Lost()
		<-r2.Lost()
		b.empty()
	})
}

func TestHoldAtLeastPerHalf(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rw := b.lock()
		h := b.must(rw.ReadLock().Lock(b.ctx, latchkey.HoldAtLeast(time.Minute)))
		writer := b.later(b.lock().WriteLock())
		b.Advance(20 * time.Second)
		b.unlock(h)
		b.unlock(b.must(rw.ReadLock().Lock(b.ctx)))
		b.waits(writer)
		res := <-writer
		require.NoError(b, res.err)
		require.GreaterOrEqual(b, res.at, time.Minute)
		require.LessOrEqual(b, res.at, time.Minute+slack)
		b.unlock(res.hold)
		b.empty()
	})
}

func TestLabels(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		rw := rwlock.New(c, "a")
		w := b.must(rw.WriteLock().Lock(b.ctx, latchkey.Label("importer")))
		r := b.must(rw.ReadLock().Lock(w.Context(), latchkey.Label("reporter")))
		info, err := c.Info(b.ctx, "a")
		require.NoError(b, err)
		require.Equal(b, latchkey.KindReadWrite, info.Kind)
		labels := func(info latchkey.Info) map[string]string {
			m := map[string]string{}
			for _, h := range info.Holders {
				m[h.ID] = h.Label
			}
			return m
		}
		want := map[string]string{w.HolderID() + ":write": "importer", w.HolderID(): "reporter"}
		require.Equal(b, want, labels(info))
		b.Advance(time.Minute) // labels are renewed
		info, err = c.Info(b.ctx, "a")
		require.NoError(b, err)
		require.Equal(b, want, labels(info))
		b.unlock(w)
		b.unlock(r)
		b.empty()
	})
}

// Two locks whose keys and fields look alike when they are concatenated are two
// locks.
func TestNamesThatLookAlike(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		ctx := latchkey.WithHolder(b.ctx)
		w := b.must(rwlock.New(c, "a").WriteLock().Lock(ctx))
		r := b.must(rwlock.New(c, "a:write").ReadLock().Lock(ctx))
		n, err := rwlock.New(c, "a:write").ReadLock().HoldCount(ctx)
		require.NoError(b, err)
		require.Equal(b, 1, n)
		b.unlock(w)
		require.NoError(b, r.Context().Err())
		b.unlock(r)
		b.empty()
	})
}

func TestCloseGivesBothHalvesBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		rw := rwlock.New(c, "a")
		w := b.must(rw.WriteLock().Lock(b.ctx))
		b.must(rw.ReadLock().Lock(w.Context()))
		b.must(rw.ReadLock().Lock(w.Context()))
		b.must(rwlock.New(c, "b").ReadLock().Lock(b.ctx))
		writer := b.later(b.lock().WriteLock())
		require.NoError(b, c.Close())
		b.unlock(b.got(writer))
		b.empty()
	})
}

func TestBadArguments(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()
	require.PanicsWithValue(t, "rwlock: New: the client is nil", func() { rwlock.New(nil, "a") })
	require.PanicsWithValue(t, "rwlock: New: the name is empty", func() { rwlock.New(c, "") })
	for _, d := range []time.Duration{-1, time.Hour + 1} {
		require.Panics(t, func() { rwlock.WriterPreference(d) })
	}
}

// Each hold of a reader has a lease, and all of them are prolonged.
func TestExtendHolderOfAReader(t *testing.T) {
	s := redistest.Start(t)
	c := latchkey.New(redistest.User(t, s.Client(t)))
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	read := rwlock.New(c, "data").ReadLock()
	h, err := read.Lock(t.Context(), latchkey.Lease(time.Minute))
	require.NoError(t, err)
	_, err = read.Lock(h.Context(), latchkey.Lease(time.Minute))
	require.NoError(t, err)
	extended, err := read.ExtendHolder(t.Context(), h.HolderID(), time.Hour)
	require.NoError(t, err)
	require.True(t, extended)
	for _, key := range []string{"data", "{data}:" + h.HolderID() + ":rwlock_timeout:1", "{data}:" + h.HolderID() + ":rwlock_timeout:2"} {
		ttl, err := strconv.Atoi(s.Do(t, "TTL", key)[0])
		require.NoError(t, err)
		assert.Greater(t, ttl, 3000, key)
	}
}

// A holder may be named as Info shows it for either half. Each half takes away
// only its own holds.
func TestForceUnlockHolderOfTheOtherHalf(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		rw, other := rwlock.New(c, "a"), b.lock()
		w := b.must(rw.WriteLock().Lock(b.ctx))
		force := func(l *rwlock.Lock, want bool) {
			info, err := c.Info(b.ctx, "a")
			require.NoError(b, err)
			for _, h := range info.Holders {
				if h.Mode == "write" {
					freed, err := l.ForceUnlockHolder(b.ctx, h.ID)
					require.NoError(b, err)
					require.Equal(b, want, freed)
				}
			}
		}
		force(other.ReadLock(), false)
		require.NoError(b, w.Extend(b.ctx, time.Minute))
		r := b.must(rw.ReadLock().Lock(w.Context()))
		force(other.ReadLock(), true)
		require.ErrorIs(b, r.Unlock(b.ctx), latchkey.ErrLeaseLost)
		require.NoError(b, w.Extend(b.ctx, time.Minute))
		force(other.WriteLock(), true)
		require.ErrorIs(b, w.Unlock(b.ctx), latchkey.ErrLeaseLost)
		b.empty()
	})
}

// A holder that has lost the write lock to another, and does not know it yet,
// learns it when its read is refused, and waits in line like any other.
func TestReadUnderALostWrite(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.client()
		rw, other := rwlock.New(c, "a"), b.lock()
		ctx := latchkey.WithHolder(b.ctx)
		w := b.must(rw.WriteLock().Lock(ctx))
		_, err := other.WriteLock().ForceUnlock(b.ctx)
		require.NoError(b, err)
		h := b.must(other.WriteLock().Lock(b.ctx))
		read := b.laterCtx(ctx, rw.ReadLock())
		<-w.Lost()
		b.Advance(100 * time.Millisecond)
		require.Less(b, b.at(), time.Second)
		require.Equal(b, 1, c.Stats().Waiting)
		asked := b.Commands("evalsha")
		b.Advance(3 * time.Second)
		require.LessOrEqual(b, b.Commands("evalsha"), asked+1, "it listens")
		b.unlock(h)
		b.Advance(time.Millisecond)
		b.unlock(b.got(read))
		b.empty()
	})
}
