package latchkey_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A leakLog has what a client logs of what was never given back. The tests are on a real
// server: what the garbage collector finds is found outside of a bubble.
type leakLog struct {
	*latchkey.Client
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *leakLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

// A leak is a line of the log.
type leak struct {
	Kind, Name, Holder, Acquired string
	Released                     bool
}

func (l *leakLog) leaks(t *testing.T) (leaks []leak) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.lines.String()) {
		var one leak
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		if one.Acquired != "" { // others tell of late renewals and the like
			leaks = append(leaks, one)
		}
	}
	return leaks
}

func newLeakLog(t *testing.T, s *redistest.Server, opts ...latchkey.Option) *leakLog {
	l := &leakLog{}
	l.Client = newClient(t, s.Client(t), append(opts, latchkey.WithWatchdogTimeout(300*time.Millisecond),
		latchkey.WithLogger(slog.New(slog.NewJSONHandler(l, nil))))...)
	return l
}

// after waits for n reports, with the garbage collected again and again, and returns them.
func (l *leakLog) after(t *testing.T, n int) []leak {
	redistest.Until(t, "reports", func() bool {
		runtime.GC()
		return len(l.leaks(t)) >= n
	})
	leaks := l.leaks(t)
	require.Len(t, leaks, n)
	return leaks
}

// forget takes a lock and forgets it.
//
//go:noinline
func forget(t *testing.T, l latchkey.Locker) {
	_, err := l.Lock(t.Context())
	require.NoError(t, err)
}

func TestForgottenHolds(t *testing.T) {
	s := redistest.Start(t)
	c := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakLog))
	rw := rwlock.New(c.Client, "rw")
	locks := map[string]latchkey.Locker{
		"rlock x": rlock.New(c.Client, "x"), "fairlock f": fairlock.New(c.Client, "f"), "rwlock rw": rw.WriteLock(),
		"rlock m": multilock.New(rlock.New(c.Client, "m")), "multilock g": multilock.NewGroup(c.Client, "g", "v"),
	}
	for _, l := range locks {
		forget(t, l)
	}
	for _, one := range c.after(t, len(locks)) {
		require.Contains(t, locks, one.Kind+" "+one.Name)
		require.Regexp(t, `^leak_test.go:\d+$`, one.Acquired)
		require.Regexp(t, "^"+c.ID()+`:\d+`, one.Holder)
		require.False(t, one.Released)
	}
	free, err := rlock.New(c.Client, "x").IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, free, "it is held as before")
}

// What is given back lets others in.
func TestForgottenHoldsAreReleased(t *testing.T) {
	s := redistest.Start(t)
	c := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakRelease))
	forget(t, rlock.New(c.Client, "x"))
	forget(t, multilock.New(rlock.New(c.Client, "a"), rlock.New(c.Client, "b")))
	sem := permitsemaphore.New(c.Client, "p")
	_, err := sem.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	func() {
		_, err = sem.Acquire(t.Context())
		require.NoError(t, err)
	}()
	for _, one := range c.after(t, 3) { // of the multi-lock one
		require.True(t, one.Released, one)
	}
	other := newClient(t, s.Client(t))
	for _, name := range []string{"x", "a", "b"} {
		h, err := rlock.New(other, name).TryLock(t.Context())
		require.NoError(t, err, name)
		require.NoError(t, h.Unlock(t.Context()))
	}
	n, err := sem.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// What the program can still give back is not reported, however it is kept. The last one
// is forgotten, and found in the same collections.
func TestHoldsInUseAreNotForgotten(t *testing.T) {
	s := redistest.Start(t)
	c := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakRelease))
	lock := func(name string) *latchkey.Hold {
		h, err := rlock.New(c.Client, name).Lock(t.Context())
		require.NoError(t, err)
		return h
	}
	kept := lock("the Hold")
	ctx := lock("its Context").Context()
	derived, cancel := context.WithCancel(lock("a derived context").Context())
	defer cancel()
	from, ok := latchkey.HoldFrom(lock("a Hold from the Context").Context())
	require.True(t, ok)
	worker := latchkey.WithHolder(t.Context())
	func() {
		_, err := rlock.New(c.Client, "under WithHolder").Lock(worker)
		require.NoError(t, err)
		_, err = rlock.New(c.Client, "with a lease").Lock(t.Context(), latchkey.Lease(time.Hour))
		require.NoError(t, err)
		_, err = rlock.New(c.Client, "its Context").Lock(ctx)
		require.NoError(t, err, "a re-entry")
	}()
	result := rlock.New(c.Client, "in a channel").LockAsync(t.Context())
	sem := permitsemaphore.New(c.Client, "p")
	_, err := sem.TrySetPermits(t.Context(), 2)
	require.NoError(t, err)
	permit := func() *permitsemaphore.Permit {
		p, err := sem.Acquire(t.Context())
		require.NoError(t, err)
		return p
	}
	id, during := permit().ID(), permit().Context()

	forget(t, rlock.New(c.Client, "nobody"))
	require.Equal(t, "nobody", c.after(t, 1)[0].Name)
	forget(t, rlock.New(c.Client, "nobody else"))
	require.Equal(t, "nobody else", c.after(t, 2)[1].Name)

	require.NoError(t, kept.Unlock(t.Context()))
	require.NoError(t, ctx.Err())
	require.NoError(t, derived.Err())
	require.NoError(t, from.Unlock(t.Context()))
	require.NoError(t, rlock.New(c.Client, "under WithHolder").Unlock(worker))
	require.NoError(t, (<-result).Value.Unlock(t.Context()))
	require.NoError(t, sem.Release(t.Context(), id))
	require.NoError(t, during.Err())
}

// A Hold that came through a channel is found as well, and so is one whose Context has
// been in use.
func TestForgottenAfterUse(t *testing.T) {
	s := redistest.Start(t)
	c := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakLog))
	func() {
		r := <-rlock.New(c.Client, "from a channel").LockAsync(t.Context())
		require.NoError(t, r.Err)
	}()
	func() {
		h, err := rlock.New(c.Client, "in use").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(h.Context())
		require.NoError(t, ctx.Err())
		cancel()
	}()
	c.after(t, 2)
}

// Whoever unlocks has not forgotten, however long the Unlock takes.
func TestUnlockUnderWayIsNoLeak(t *testing.T) {
	s := redistest.Start(t)
	c := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakLog))
	other := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakLog))
	done := make(chan error, 1)
	rw := rwlock.New(c.Client, "x")
	h, err := rw.WriteLock().Lock(t.Context())
	require.NoError(t, err)
	r, err := rw.Downgrade(t.Context(), h)
	require.NoError(t, err)
	go func(h *latchkey.Hold) { done <- h.Unlock(t.Context()) }(r)
	require.NoError(t, <-done)
	forget(t, rlock.New(other.Client, "y"))
	other.after(t, 1)
	require.Empty(t, c.leaks(t))
}

// Of a Redlock all members are given back, also those whose grant came after the Hold.
func TestForgottenRedlock(t *testing.T) {
	s := redistest.Start(t)
	others := []*redistest.Server{s, redistest.Start(t), redistest.Start(t)}
	clients := make([]*leakLog, len(others))
	members := make([]latchkey.Locker, len(others))
	for i, s := range others {
		clients[i] = newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakRelease))
		members[i] = rlock.New(clients[i].Client, "x")
	}
	forget(t, multilock.NewRed(members...))
	redistest.Until(t, "the members to be free", func() bool {
		runtime.GC()
		for i := range members {
			locked, err := rlock.New(clients[i].Client, "x").IsLocked(t.Context())
			require.NoError(t, err)
			if locked {
				return false
			}
		}
		return true
	})
	n := 0
	for _, c := range clients {
		n += len(c.leaks(t))
	}
	require.Equal(t, 1, n, "it is reported once")
}

// A worker that looks at Lost alone would not learn that the lock was given back.
func TestWhoLooksAtLostKeepsTheLock(t *testing.T) {
	s := redistest.Start(t)
	c := newLeakLog(t, s, latchkey.WithLeakDetection(latchkey.LeakRelease))
	lost := func() <-chan struct{} {
		h, err := rlock.New(c.Client, "x").Lock(t.Context())
		require.NoError(t, err)
		return h.Lost()
	}()
	require.False(t, c.after(t, 1)[0].Released)
	locked, err := rlock.New(c.Client, "x").IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, locked)
	select {
	case <-lost:
		t.Error("it is held")
	default:
	}
}
