package engine

import (
	"context"
	"sync"
	"time"
)

// bounds makes the contexts that bound an Unlock. Those of one moment share one
// timer, because a timer each would be the dearest part of an Unlock.
type bounds struct {
	// mu guards the fields below.
	mu      sync.Mutex
	current *bound
	until   time.Time // from when on another is needed
}

// share is for how long one timer serves the Unlocks that begin.
const share = 50 * time.Millisecond

// next returns a context that has the values of ctx, nothing of its
// cancellation, and ends after most, or up to share later.
func (b *bounds) next(ctx context.Context, most time.Duration) cleanup {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.After(b.until) {
		// The one before it still serves those who have it, and ends by itself.
		b.current = &bound{at: now.Add(most + share)}
		b.until = now.Add(share)
	}
	return cleanup{Context: b.current, values: ctx, brief: true}
}

// A bound is a context that ends at a time, and has a timer only when somebody waits
// for that: to start one is dear, and most commands are back before anybody has to.
type bound struct {
	at     time.Time
	once   sync.Once
	timed  context.Context
	cancel context.CancelFunc // never called: it ends by itself
}

func (b *bound) Deadline() (time.Time, bool) { return b.at, true }

func (b *bound) Done() <-chan struct{} { return b.waited().Done() }

func (b *bound) Err() error {
	if time.Now().Before(b.at) {
		return nil
	}
	<-b.Done() // its timer is due
	return b.waited().Err()
}

func (b *bound) Value(any) any { return nil }

// waited returns the context with a timer.
func (b *bound) waited() context.Context {
	b.once.Do(func() { b.timed, b.cancel = context.WithDeadline(context.Background(), b.at) })
	return b.timed
}
