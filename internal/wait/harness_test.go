package wait_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// inBubble runs f in a bubble of fake time. A waiter there for what never comes asks
// again for ever, and so the bubble would not end.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		end := time.AfterFunc(1000*time.Hour, func() { panic("somebody waits for what never comes") })
		defer end.Stop()
		f(t)
	})
}

// A claim answers from a function and records when it was asked.
type claim struct {
	start  time.Time
	answer func(nth int) (wait.Answer, error)

	mu    sync.Mutex
	asked []time.Duration
}

func newClaim(f func(nth int) (wait.Answer, error)) *claim {
	return &claim{start: time.Now(), answer: f}
}

func (c *claim) Try(context.Context) (wait.Answer, error) {
	c.mu.Lock()
	c.asked = append(c.asked, time.Since(c.start))
	nth := len(c.asked)
	c.mu.Unlock()
	return c.answer(nth)
}

func (c *claim) at() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// refuse answers with a refusal n times, then grants.
func refuse(n int, ans wait.Answer) func(int) (wait.Answer, error) {
	return func(nth int) (wait.Answer, error) {
		if nth > n {
			return wait.Answer{Granted: true, After: ans.After}, nil
		}
		return ans, nil
	}
}

// hints are given out by hand.
type hints struct {
	mu         sync.Mutex
	c          chan struct{}
	live, dead bool
	opened     int
	closed     int
}

func newHints() *hints { return &hints{c: make(chan struct{}, 1)} }

func (h *hints) C() <-chan struct{} { return h.c }
func (h *hints) Live() bool         { h.mu.Lock(); defer h.mu.Unlock(); return h.live }
func (h *hints) Dead() bool         { h.mu.Lock(); defer h.mu.Unlock(); return h.dead }
func (h *hints) Close()             { h.mu.Lock(); defer h.mu.Unlock(); h.closed++ }

func (h *hints) open() wait.Hints {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened++
	return h
}

// confirm makes the hints flow.
func (h *hints) confirm() { h.mu.Lock(); h.live = true; h.mu.Unlock(); h.hint() }

func (h *hints) hint() {
	select {
	case h.c <- struct{}{}:
	default:
	}
}

func (h *hints) counts() (opened, closed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened, h.closed
}

var errClosed = errors.New("closed")

const (
	recheck     = 4 * time.Second
	unconfirmed = time.Second
)

// policy is that of a lock that hears hints.
func policy(h *hints) *wait.Policy {
	p := &wait.Policy{
		Poll:        wait.Backoff{Initial: 8 * time.Millisecond, Max: 64 * time.Millisecond, Multiplier: 2},
		Recheck:     recheck,
		Unconfirmed: unconfirmed,
		Exclusive:   true,
		ClosedErr:   errClosed,
	}
	if h != nil {
		p.Listen = h.open
	}
	return p
}

// told is what to do at the events of a wait; each may be nil.
type told struct{ slept, missed func() }

func (e told) Slept() {
	if e.slept != nil {
		e.slept()
	}
}

func (e told) Missed() {
	if e.missed != nil {
		e.missed()
	}
}

// A result is what became of an Until.
type result struct {
	err error
	at  time.Duration
}

// until runs Until on a goroutine.
func until(ctx context.Context, ls *wait.Lines, key string, c wait.Claim, p *wait.Policy) <-chan result {
	return begin(func() error { return ls.Until(ctx, key, c, p) })
}

// follow runs stand on a goroutine.
func follow(ctx context.Context, ls *wait.Lines, key string, c wait.Claim, p *wait.Policy) <-chan result {
	return begin(func() error { return stand(ctx, ls, key, c, p) })
}

func begin(f func() error) <-chan result {
	start := time.Now()
	out := make(chan result, 1)
	go func() {
		err := f()
		out <- result{err, time.Since(start)}
	}()
	synctest.Wait()
	return out
}

// stand is Until by way of Follow and Await, where somebody stands in line.
func stand(ctx context.Context, ls *wait.Lines, key string, c wait.Claim, p *wait.Policy) error {
	p.Place = new(wait.Place)
	if ls.Follow(key, c, p.Place) {
		p.Heard = p.Place.Await(ctx, p.Over).Heard
	}
	return ls.Until(ctx, key, c, p)
}

// some is stand for two in three, and Until for the others.
func some(i int) func(ctx context.Context, ls *wait.Lines, key string, c wait.Claim, p *wait.Policy) error {
	if i%3 == 0 {
		return func(ctx context.Context, ls *wait.Lines, key string, c wait.Claim, p *wait.Policy) error {
			return ls.Until(ctx, key, c, p)
		}
	}
	return stand
}

// advance lets d pass and everything happen that is due by then.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
