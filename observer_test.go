package latchkey_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// A book records what an Observer receives.
type book struct {
	mu       sync.Mutex
	begun    map[string]int // holds by kind
	released map[string]int
	lost     map[string]int // by kind and reason
	undone   int
	failed   int
}

func newBook() *book {
	return &book{begun: map[string]int{}, released: map[string]int{}, lost: map[string]int{}}
}

func (b *book) observer() latchkey.Observer {
	return latchkey.Observer{
		Acquired: func(_ context.Context, a latchkey.Acquisition) {
			b.note(func() { b.begun[a.Kind] += a.Holds })
		},
		AcquireFailed: func(_ context.Context, a latchkey.Acquisition, _ error) {
			b.note(func() { b.failed++; b.begun[a.Kind] += a.Holds })
		},
		Released: func(kind, _ string, _ time.Duration) { b.note(func() { b.released[kind]++ }) },
		Lost: func(kind, _ string, _ time.Duration, why latchkey.LossReason) {
			b.note(func() { b.lost[fmt.Sprint(kind, " ", why)]++ })
		},
		Undone: func(string, string) { b.note(func() { b.undone++ }) },
	}
}

func (b *book) note(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func sum(m map[string]int) (n int) {
	for v := range maps.Values(m) {
		n += v
	}
	return n
}

// balanced reports whether every hold that has begun has ended exactly once.
func (b *book) balanced() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return sum(b.begun) == sum(b.released)+sum(b.lost)
}

// Each hold that Acquired reports is followed by one Released or one Lost, of
// every kind and however it ends.
func TestObserverHearsOfEachEndOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		book := newBook()
		c := latchkey.New(b.Redis, latchkey.WithObserver(book.observer()))
		ctx := t.Context()
		locks := []latchkey.Locker{
			rlock.New(c, "r"), rlock.New(c, "spin", rlock.Spin(rlock.Backoff{})), fairlock.New(c, "f"),
			rwlock.New(c, "rw").ReadLock(), rwlock.New(c, "rw").WriteLock(),
		}
		for _, l := range locks {
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			nested, err := l.Lock(h.Context())
			require.NoError(t, err)
			require.NoError(t, nested.Unlock(ctx))
			require.NoError(t, h.Unlock(ctx))
			require.ErrorIs(t, h.Unlock(ctx), latchkey.ErrNotHeld, "a second time is none")
			h, err = l.Lock(ctx, latchkey.HoldAtLeast(time.Second))
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			time.Sleep(2 * time.Second)
		}
		require.True(t, book.balanced(), "%+v", book)
		require.Equal(t, map[string]int{"rlock": 6, "fairlock": 3, "rwlock": 6}, book.released)

		// From waiter to waiter.
		for _, l := range locks {
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			done := make(chan error, 3)
			for range 3 {
				go func() { done <- latchkey.Do(ctx, l, func(context.Context) error { return nil }) }()
			}
			time.Sleep(time.Second)
			require.NoError(t, h.Unlock(ctx))
			for range 3 {
				require.NoError(t, <-done)
			}
		}
		require.True(t, book.balanced(), "%+v", book)

		permits := permitsemaphore.New(c, "p")
		require.NoError(t, permits.SetPermits(ctx, 10))
		all, err := permits.AcquireN(ctx, 4)
		require.NoError(t, err)
		require.NoError(t, all[0].Release(ctx))
		require.NoError(t, permits.Release(ctx, all[1].ID(), all[2].ID()))
		require.Error(t, permits.Release(ctx, all[1].ID()))
		require.NoError(t, all[3].Release(ctx))
		require.Equal(t, 4, book.begun["permitsemaphore"])
		require.Equal(t, 4, book.released["permitsemaphore"])

		// What has no end of its own.
		sem := semaphore.New(c, "s")
		require.NoError(t, sem.AddPermits(ctx, 1))
		require.NoError(t, sem.Acquire(ctx, 1))
		require.NoError(t, sem.Release(ctx, 1))
		require.NoError(t, countdownlatch.New(c, "l").Await(ctx))
		require.Zero(t, book.begun["semaphore"]+book.begun["countdownlatch"])
		require.True(t, book.balanced(), "%+v", book)

		// An Unlock without an answer is the end; the one after it is none.
		for _, begin := range []func() func(context.Context) error{
			func() func(context.Context) error { h, _ := locks[0].Lock(ctx); return h.Unlock },
			func() func(context.Context) error { p, _ := permits.Acquire(ctx); return p.Release },
		} {
			end := begin()
			b.Partition()
			require.Error(t, end(ctx))
			require.True(t, book.balanced(), "%+v", book)
			b.Heal()
			require.NoError(t, end(ctx))
			require.True(t, book.balanced(), "%+v", book)
		}
		require.Empty(t, book.lost)

		// Close ends what is left.
		_, err = locks[0].Lock(ctx)
		require.NoError(t, err)
		_, err = permits.AcquireN(ctx, 2)
		require.NoError(t, err)
		require.False(t, book.balanced())
		require.NoError(t, c.Close())
		require.True(t, book.balanced(), "%+v", book)
		require.Zero(t, c.Stats().Held)
	})
}

func TestObserverTellsWhyAHoldIsLost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		book := newBook()
		c := newClient(t, b.Redis, latchkey.WithObserver(book.observer()))
		ctx := t.Context()
		must := func(h *latchkey.Hold, err error) *latchkey.Hold {
			t.Helper()
			require.NoError(t, err)
			return h
		}
		l := rlock.New(c, "a")
		permits := permitsemaphore.New(c, "p")
		require.NoError(t, permits.SetPermits(ctx, 10))
		check := func(want map[string]int) {
			t.Helper()
			synctest.Wait() // Lost is closed first
			require.Equal(t, want, book.lost)
			require.True(t, book.balanced(), "%+v", book)
			clear(book.lost)
			clear(book.begun)
			clear(book.released)
		}

		<-must(l.Lock(ctx, latchkey.Lease(time.Second))).Lost()
		p, err := permits.Acquire(ctx, latchkey.Lease(time.Second))
		require.NoError(t, err)
		<-p.Lost()
		time.Sleep(time.Second)
		<-must(l.Lock(ctx, latchkey.MaxHold(45*time.Second))).Lost()
		p, err = permits.Acquire(ctx, latchkey.MaxHold(45*time.Second))
		require.NoError(t, err)
		<-p.Lost()
		check(map[string]int{"rlock limit": 2, "permitsemaphore limit": 2})

		// Somebody else took it: seen by a renewal, an Unlock, an Extend, a re-entry.
		time.Sleep(time.Second)
		h := must(l.Lock(ctx))
		p, err = permits.Acquire(ctx)
		require.NoError(t, err)
		b.Mini.FlushAll()
		<-h.Lost()
		<-p.Lost()
		for _, touch := range []func(*latchkey.Hold) error{
			func(h *latchkey.Hold) error { return h.Unlock(ctx) },
			func(h *latchkey.Hold) error { return h.Extend(ctx, time.Minute) },
			func(h *latchkey.Hold) error { _, err := l.Lock(h.Context()); return err },
		} {
			h := must(l.Lock(ctx))
			_, err := l.ForceUnlock(ctx)
			require.NoError(t, err)
			require.ErrorIs(t, touch(h), latchkey.ErrLeaseLost)
		}
		check(map[string]int{"rlock taken": 4, "permitsemaphore taken": 1})

		// Redis is silent.
		require.NoError(t, permits.SetPermits(ctx, 10))
		h = must(l.Lock(ctx))
		nested := must(l.Lock(h.Context(), latchkey.Lease(time.Second)))
		p, err = permits.Acquire(ctx)
		require.NoError(t, err)
		b.Partition()
		<-h.Lost()
		<-nested.Lost()
		<-p.Lost()
		b.Heal()
		check(map[string]int{"rlock expired": 2, "permitsemaphore expired": 1})
	})
}

// The other events, each at its moment.
func TestObserverHearsOfTheRest(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		var mu sync.Mutex
		var heard []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, fmt.Sprintf(format, args...))
		}
		has := func(what string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Contains(t, heard, what)
		}
		type key struct{}
		c := newClient(t, b.Redis, latchkey.WithObserver(latchkey.Observer{
			WaitStarted: func(ctx context.Context, kind, name string) { note("wait %s %s %v", kind, name, ctx.Value(key{})) },
			Acquired: func(ctx context.Context, a latchkey.Acquisition) {
				note("acquired %v %v %v %v", a.Wait, a.Contended, a.Holds, ctx.Value(key{}))
			},
			AcquireFailed: func(ctx context.Context, a latchkey.Acquisition, err error) {
				note("failed %v %v %v %v %v", a.Wait, a.Contended, a.Holds, err, ctx.Value(key{}))
			},
			Renewed:      func(_, _ string, lag time.Duration) { note("renewed %v", lag) },
			RenewFailed:  func(_, _ string, err error) { note("renewal failed %v", err != nil) },
			Undone:       func(kind, name string) { note("undone %s %s", kind, name) },
			Resubscribed: func(n int) { note("resubscribed %d", n) },
			HintMissed:   func(kind, name string) { note("missed %s %s", kind, name) },
		}))
		ctx := context.WithValue(t.Context(), key{}, "ctx")
		l := rlock.New(c, "a")

		h, err := l.Lock(ctx)
		require.NoError(t, err)
		has("acquired 0s false 1 ctx")
		_, err = l.TryLock(ctx, latchkey.Wait(3*time.Second))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		has("wait rlock a ctx")
		has("failed 3s true 0 not acquired ctx")
		time.Sleep(10 * time.Second)
		has("renewed 0s")
		b.Partition()
		time.Sleep(11 * time.Second)
		has("renewal failed true")
		b.Heal()
		time.Sleep(5 * time.Second)
		require.NoError(t, h.Context().Err())

		// The lock goes without a message; the recheck finds it.
		waiter := l.LockAsync(ctx)
		time.Sleep(time.Second)
		require.NoError(t, b.Redis.Del(ctx, "a").Err())
		got := <-waiter
		require.NoError(t, got.Err)
		has("missed rlock a")
		require.NoError(t, got.Value.Unlock(ctx))

		// The connection for wake-ups breaks while somebody waits.
		h, err = l.Lock(ctx)
		require.NoError(t, err)
		waiter = l.LockAsync(ctx)
		time.Sleep(time.Second)
		b.Link(b.Redis).CutAll()
		time.Sleep(5 * time.Second)
		has("resubscribed 2")
		require.NoError(t, h.Unlock(ctx))
		got = <-waiter
		require.NoError(t, got.Err)
		require.NoError(t, got.Value.Unlock(ctx))

		time.Sleep(10 * time.Second) // until what the cut has left in doubt is settled

		// An answer that comes too late for the caller: what was granted is taken back.
		b.Link(b.Redis).OnNext(1, "evalsha", redistest.Hold)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = l.Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Second)
		has("undone rlock a")
	})
}

// The Observer of a loss may acquire the lock: no call of the holder is in the
// way.
func TestObserverOfALossMayTakeTheLock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx := latchkey.WithHolder(t.Context())
		var l *rlock.Lock
		heard := make(chan error, 1)
		c := latchkey.New(b.Redis, latchkey.WithObserver(latchkey.Observer{
			Lost: func(string, string, time.Duration, latchkey.LossReason) {
				soon, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := l.TryLock(soon)
				heard <- err
			},
		}))
		defer func() { require.NoError(t, c.Close()) }()
		l = rlock.New(c, "a")
		_, err := l.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, b.Redis.Del(ctx, "a").Err())
		_, err = l.Lock(ctx) // finds out
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		require.NoError(t, <-heard)
	})
}
