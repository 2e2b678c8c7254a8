package multilock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// An attempt is one caller's try to acquire a Lock.
type attempt struct {
	lock     *Lock
	cfg      engine.LockConfig
	once     bool            // make one attempt, without waiting
	deadline time.Time       // end of a bounded wait; zero if unbounded
	over     context.Context // done with the caller's context, or at the deadline
	// everybody is set after a round without a majority. Silent members are
	// then asked too.
	everybody bool
	atLeast   time.Duration // how long the members stay closed, once all are held
}

// begin sets how long to wait. The caller must call end.
func (t *attempt) begin(ctx context.Context, try bool) (end context.CancelFunc) {
	t.atLeast, t.cfg.AtLeast = t.cfg.AtLeast, 0 // a rolled back member does not stay closed
	t.over, end = ctx, func() {}
	switch {
	case !try && !t.cfg.Waits:
	case t.cfg.Wait <= 0:
		t.once = true
	default:
		t.deadline = time.Now().Add(t.cfg.Wait)
		t.over, end = context.WithDeadline(ctx, t.deadline)
	}
	return end
}

// options returns the options for a member: wait is the longest wait, without a
// bound if negative.
func (t *attempt) options(wait time.Duration) latchkey.LockOption {
	cfg := t.cfg
	cfg.Waits, cfg.Wait, cfg.Part = wait >= 0, wait, true
	return engine.LockOptionFunc(func(c *engine.LockConfig) { *c = cfg })
}

// left returns what remains of a bounded wait, at most d.
func (t *attempt) left(d time.Duration) time.Duration {
	if t.deadline.IsZero() {
		return d
	}
	return min(d, max(time.Until(t.deadline), 0))
}

const (
	// patienceFirst and patienceMost bound how long a caller that holds some
	// members waits for the next one. The bound grows from round to round.
	patienceFirst = 100 * time.Millisecond
	patienceMost  = 1600 * time.Millisecond
)

// all takes all members. It waits without a bound only for the first member of
// a round, while it holds none. The first member is the one that refused in the
// previous round.
func (t *attempt) all(ctx context.Context) (*whole, error) {
	first := 0
	for patience := patienceFirst; ; patience = min(2*patience, patienceMost) {
		holds, refused, err := t.round(ctx, first, patience)
		if err == nil {
			var w *whole
			if w, err = t.made(ctx, holds); err == nil {
				return w, nil
			}
			refused = -1
		}
		giveBack(t.over, holds)
		switch {
		case refused < 0:
			return nil, err
		case t.once || t.over.Err() != nil && ctx.Err() == nil:
			return nil, t.lock.members[refused].refusal(ctx, err, !t.cfg.Part)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if refused == first && !sleep(t.over, pauseFirst) { // a Locker from elsewhere, which returned early
			return nil, t.lock.members[refused].refusal(ctx, err, !t.cfg.Part)
		}
		first = refused
	}
}

// made makes a whole of the holds of all members.
func (t *attempt) made(ctx context.Context, holds []engine.Held) (*whole, error) {
	w := newWhole(ctx, t.lock)
	for i, h := range holds {
		w.add(i, h)
	}
	if !w.settle(ctx) || w.Remaining() == 0 {
		w.drop()
		return nil, errSpent
	}
	return w, t.stayClosed(ctx, w)
}

// stayClosed applies the option HoldAtLeast.
func (t *attempt) stayClosed(ctx context.Context, w *whole) error {
	if t.atLeast == 0 {
		return nil
	}
	return w.StayClosed(ctx, t.atLeast)
}

var errSpent = fmt.Errorf("%w: before all members were held", engine.ErrLeaseLost)

// round takes the members one after the other, beginning with first. On an
// error it returns the holds taken so far and the member that refused, or -1 if
// none did.
func (t *attempt) round(ctx context.Context, first int, patience time.Duration) (holds []engine.Held, refused int, err error) {
	members := t.lock.members
	holds = make([]engine.Held, 0, len(members))
	for k := range members {
		// first, then the others in their order
		i := k
		if k <= first {
			i = (k + first) % (first + 1)
		}
		h, err := t.member(ctx, members[i].locker, t.wait(k, i > first, patience, holds))
		if err != nil {
			if !errors.Is(err, engine.ErrNotAcquired) {
				return holds, -1, err
			}
			return holds, i, err
		}
		holds = append(holds, h)
		// The halves of a read-write lock share their holder.
		ctx = engine.WithHold(ctx, h)
	}
	return holds, -1, nil
}

// wait returns how long to wait for the k-th member of a round; a negative
// result is without a bound.
func (t *attempt) wait(k int, ordered bool, patience time.Duration, holds []engine.Held) time.Duration {
	switch {
	case t.once:
		return 0
	case k == 0 && t.deadline.IsZero():
		return -1
	case k == 0:
		return t.left(t.cfg.Wait)
	case !ordered:
		// Its holder may be waiting for a member that is held here.
		return 0
	}
	for _, h := range holds {
		patience = min(patience, h.Remaining()/2) // for holds with a short lease
	}
	return t.left(patience)
}

// member takes one member.
func (t *attempt) member(ctx context.Context, l latchkey.Locker, wait time.Duration) (engine.Held, error) {
	if wait < 0 {
		return heldBy(l.Lock(ctx, t.options(wait)))
	}
	return heldBy(l.TryLock(ctx, t.options(wait)))
}
