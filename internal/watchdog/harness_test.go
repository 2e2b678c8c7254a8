package watchdog_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A sent is one renewal that a fake Redis has seen.
type sent struct {
	at    time.Duration // since the start of the test
	group string
	batch []watchdog.Renewal
}

// A fakeRedis is a renew function that keeps a record.
type fakeRedis struct {
	start time.Time
	// answer decides on one item of the nth call, counted from 1; nil: Extended.
	answer func(nth int, r watchdog.Renewal) watchdog.Result
	// during runs while the call is under way; nil: it takes no time.
	during func(ctx context.Context)

	mu    sync.Mutex
	calls []sent
}

func (f *fakeRedis) renew(ctx context.Context, group string, batch []watchdog.Renewal) []watchdog.Result {
	f.mu.Lock()
	asked := slices.Clone(batch)
	for i := range asked {
		asked[i].Left = 0 // the history's: see TestHistoryOfLateRenewals
	}
	f.calls = append(f.calls, sent{time.Since(f.start), group, asked})
	nth := len(f.calls)
	f.mu.Unlock()
	if f.during != nil {
		f.during(ctx)
	}
	results := make([]watchdog.Result, len(batch))
	for i, r := range batch {
		results[i] = watchdog.Extended
		if f.answer != nil {
			results[i] = f.answer(nth, r)
		}
	}
	return results
}

func (f *fakeRedis) seen() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// at returns when the calls were made.
func (f *fakeRedis) at() []time.Duration {
	var at []time.Duration
	for _, c := range f.seen() {
		at = append(at, c.at)
	}
	return at
}

// A subject records its losses.
type subject struct {
	start time.Time
	name  int

	mu   sync.Mutex
	lost []loss
}

type loss struct {
	at     time.Duration
	reason watchdog.Reason
}

func (s *subject) Lost(_ *watchdog.Item, r watchdog.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, loss{time.Since(s.start), r})
}

func (s *subject) losses() []loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// A clock is a system clock whose wall can be set, and which counts how often
// it is read: the loop reads it once in each step.
type clock struct {
	base time.Time

	mu    sync.Mutex
	off   time.Duration // of the wall
	reads int
}

func newClock() *clock { return &clock{base: time.Now()} }

func (c *clock) now() watchdog.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	now := time.Now()
	return watchdog.NewInstant(now.Sub(c.base), now.Add(c.off))
}

// jump sets the wall clock forward by d while no time passes.
func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

func (c *clock) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// A room is a watchdog in a bubble, with all that it needs.
type room struct {
	*watchdog.Watchdog
	*testing.T
	start time.Time
	clock *clock
	redis *fakeRedis
}

// inRoom runs f with a watchdog in fake time.
func inRoom(t *testing.T, f func(t *testing.T, r *room)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		r := &room{T: t, start: time.Now(), clock: newClock()}
		r.redis = &fakeRedis{start: r.start}
		r.Watchdog = watchdog.New(r.clock.now, r.redis.renew, nil)
		defer func() { r.Close() }()
		f(t, r)
		require.NoError(t, watchdog.Check(r.Watchdog))
	})
}

// window is the window of a lease asked for now.
func (r *room) window(lease time.Duration) watchdog.Window {
	return watchdog.NewWindow(r.clock.now(), lease)
}

// add puts a new item under watch, with a window of its lease.
func (r *room) add(lease time.Duration) (*watchdog.Item, *subject) {
	return r.addPlan(lease, watchdog.Plan{Lease: lease})
}

func (r *room) addPlan(lease time.Duration, plan watchdog.Plan) (*watchdog.Item, *subject) {
	s := &subject{start: r.start}
	it := &watchdog.Item{Group: "g", Subject: s}
	require.True(r, r.Add(it, r.window(lease), plan))
	return it, s
}

// advance lets d pass and everything happen that is due by then.
func (r *room) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until advances to that time after the start.
func (r *room) until(at time.Duration) { r.advance(at - time.Since(r.start)) }

// trusted is for how long a lease is believed in.
func trusted(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }
