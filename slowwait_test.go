package latchkey_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// slowWaits has what a client with WithSlowWait(10 s) reports.
type slowWaits struct {
	*latchkey.Client
	told  chan struct{} // closed by the first report
	mu    sync.Mutex
	seen  []latchkey.SlowWait
	lines bytes.Buffer
}

// Write is for the logger.
func (s *slowWaits) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.Write(line)
}

// logged returns the lines of the logger.
func (s *slowWaits) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

func newSlowWaits(t *testing.T, rdb redis.UniversalClient, opts ...latchkey.Option) *slowWaits {
	s := &slowWaits{told: make(chan struct{})}
	tell := sync.OnceFunc(func() { close(s.told) })
	s.Client = newClient(t, rdb, append([]latchkey.Option{
		latchkey.WithSlowWait(10 * time.Second), latchkey.WithLogger(slog.New(slog.NewTextHandler(s, nil))),
		latchkey.WithObserver(latchkey.Observer{SlowWait: func(w latchkey.SlowWait) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen = append(s.seen, w)
			tell()
		}}),
	}, opts...)...)
	return s
}

// take returns what was reported since the last time.
func (s *slowWaits) take() []latchkey.SlowWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// A wait is reported after the time of the option, at twice that and so on, with who has
// the lock.
func TestSlowWait(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		other, s := newClient(t, b.Redis), newSlowWaits(t, b.Client())
		h, err := rlock.New(other, "x").Lock(t.Context(), latchkey.Label("ann"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _ = rlock.New(s.Client, "x").Lock(ctx) })
			synctest.Wait()
		}
		b.Advance(9 * time.Second)
		require.Empty(t, s.take())
		b.Advance(3 * time.Second)
		seen := s.take()
		require.Len(t, seen, 2)
		for i, w := range seen {
			require.NoError(t, w.Err)
			require.Equal(t, "rlock", w.Kind)
			require.Equal(t, "x", w.Name)
			require.Equal(t, i+1, w.Place)
			require.InDelta(t, 11*time.Second, w.Waited, float64(2*time.Second))
			require.Equal(t, "ann", w.Holders[0].Label)
			require.Empty(t, w.Acquired, "it is another client's")
			require.False(t, w.Reenters)
		}
		require.Contains(t, s.logged(), `msg="latchkey: a call waits" kind=rlock name=x`)
		require.Contains(t, s.logged(), "label=ann")
		b.Advance(7 * time.Second)
		require.Empty(t, s.take())
		b.Advance(3 * time.Second)
		require.Len(t, s.take(), 2, "at twice the time")
		b.Advance(time.Minute)
		require.Len(t, s.take(), 4, "at four and eight times")
		cancel()
		all.Wait()
		require.NoError(t, h.Unlock(t.Context()))
		b.Advance(time.Minute)
		require.Empty(t, s.take())
	})
}

// Of a lock that this process has, it is told where it was acquired; and that the caller
// waits for itself, if the same context asks again.
func TestSlowWaitForOneself(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() redis.UniversalClient, unit time.Duration) {
		s := newSlowWaits(t, client(), latchkey.WithSlowWait(10*unit))
		l := rlock.New(s.Client, "x")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-s.told
			cancel()
		}()
		err := latchkey.Do(ctx, l, func(context.Context) error {
			_, err := l.Lock(ctx) // not the inner one
			return err
		})
		require.ErrorIs(t, err, context.Canceled)
		seen := s.take()
		require.NotEmpty(t, seen)
		require.Regexp(t, `^slowwait_test.go:\d+$`, seen[0].Acquired)
		require.True(t, seen[0].Reenters)
		require.Contains(t, s.logged(), "re-enters with the Context of its Hold")
	})
}

// A watchedContext counts how often those that look at who waits ask it. It cannot be
// compared with ==.
type watchedContext struct {
	context.Context
	asked []*atomic.Int64
}

func (c watchedContext) count() {
	if bytes.Contains(debug.Stack(), []byte("lookAtWaits")) {
		c.asked[0].Add(1)
	}
}

func (c watchedContext) Value(key any) any {
	c.count()
	return c.Context.Value(key)
}

func (c watchedContext) Done() <-chan struct{} {
	c.count()
	return c.Context.Done()
}

// Contexts that differ only in their values count as one, whatever their types are. They
// are not asked behind their callers' backs: a caller may use its context for something
// else when the call has returned.
func TestSlowWaitComparesContexts(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		s := newSlowWaits(t, b.Client(), latchkey.WithWaitGraph())
		l := rlock.New(s.Client, "x")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked atomic.Int64
		watched := watchedContext{ctx, []*atomic.Int64{&asked}}
		h, err := l.Lock(watched)
		require.NoError(t, err)
		var all sync.WaitGroup
		for _, ctx := range []context.Context{
			watched,
			context.WithValue(ctx, new(int), 1),
			context.Background(), // of nobody
		} {
			all.Go(func() { _, _ = l.TryLock(ctx, latchkey.Wait(15*time.Second)) })
			synctest.Wait()
		}
		b.Advance(12 * time.Second)
		var same []bool
		for _, w := range s.take() {
			same = append(same, w.Reenters)
		}
		require.Equal(t, []bool{true, true, false}, same)
		require.Zero(t, asked.Load())
		all.Wait()
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// In a fair lock the place is that among all clients' waiters.
func TestSlowWaitInAQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() redis.UniversalClient, unit time.Duration) {
		other, s := newClient(t, client()), newSlowWaits(t, client(), latchkey.WithSlowWait(10*unit))
		h, err := fairlock.New(other, "x").Lock(t.Context(), latchkey.Label("ann"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for i, c := range []*latchkey.Client{other, other, s.Client} {
			all.Go(func() { _, _ = fairlock.New(c, "x").Lock(ctx) })
			for len(inspect(t, other, "x").Waiters) <= i {
				time.Sleep(unit / 10)
			}
		}
		var last latchkey.SlowWait
		for last.Waiting < 3 { // the first report may come before the call has its place
			if seen := s.take(); len(seen) > 0 {
				last = seen[len(seen)-1]
			}
			time.Sleep(unit / 10)
		}
		require.Equal(t, 3, last.Place)
		require.Equal(t, 3, last.Waiting)
		require.Equal(t, "ann", last.Holders[0].Label)
		require.Contains(t, s.logged(), "label=ann")
		cancel()
		all.Wait()
		require.NoError(t, h.Unlock(t.Context()))
	})
}

// Reports of one object at one time share a reading.
func TestSlowWaitsShareAReading(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		other, s := newClient(t, b.Redis), newSlowWaits(t, b.Client())
		h := locked(t, rlock.New(other, "x"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _, _ = rlock.New(s.Client, "x").Lock(ctx) })
		}
		b.Advance(12 * time.Second)
		seen := s.take()
		require.Len(t, seen, 100)
		readings := map[time.Time]bool{}
		for _, w := range seen {
			require.NoError(t, w.Err)
			readings[w.At] = true
		}
		require.Len(t, readings, 1)
		cancel()
		all.Wait()
		require.NoError(t, h.Unlock(t.Context()))
	})
}
