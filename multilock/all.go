package multilock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// A taking is one caller's attempt to come to hold a Lock.
type taking struct {
	lock     *Lock
	cfg      engine.LockConfig
	once     bool            // makes one attempt
	deadline time.Time       // of a bounded wait; zero for none
	over     context.Context // ends with the caller's, or at the deadline
	// everybody is set after a round without a majority: then silent members are
	// asked too.
	everybody bool
	atLeast   time.Duration // for how long the members stay closed, once all are held
}

// begin sets how long to wait. The caller calls end.
func (t *taking) begin(ctx context.Context, try bool) (end context.CancelFunc) {
	t.atLeast, t.cfg.AtLeast = t.cfg.AtLeast, 0 // what is rolled back does not stay closed
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

// options returns the options for a member that is waited for no longer than
// wait; less than 0 is for as long as the context lives.
func (t *taking) options(wait time.Duration) latchkey.LockOption {
	cfg := t.cfg
	cfg.Waits, cfg.Wait = wait >= 0, wait
	return engine.LockOptionFunc(func(c *engine.LockConfig) { *c = cfg })
}

// left returns how much of a bounded wait is left, at most d.
func (t *taking) left(d time.Duration) time.Duration {
	if t.deadline.IsZero() {
		return d
	}
	return min(d, max(time.Until(t.deadline), 0))
}

const (
	// patienceFirst and patienceMost bound how long one who has taken some members
	// waits for the next one. It grows from round to round.
	patienceFirst = 100 * time.Millisecond
	patienceMost  = 1600 * time.Millisecond
)

// all takes all members. It waits without a bound only for the first one of a
// round, while it has none. The first is the one that refused in the round
// before.
func (t *taking) all(ctx context.Context) (*whole, error) {
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
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if refused == first && !sleep(t.over, pauseFirst) { // not ours to wait for: a Locker of somebody else's
			return nil, err
		}
		first = refused
	}
}

// made makes a whole of the holds of all members.
func (t *taking) made(ctx context.Context, holds []engine.Held) (*whole, error) {
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

// stayClosed does what the option HoldAtLeast asks for.
func (t *taking) stayClosed(ctx context.Context, w *whole) error {
	if t.atLeast == 0 {
		return nil
	}
	return w.StayClosed(ctx, t.atLeast)
}

var errSpent = fmt.Errorf("%w: before all members were held", engine.ErrLeaseLost)

// round takes the members one after the other, beginning with first. On an error
// it returns the holds it has come to, and which member has refused, if any.
func (t *taking) round(ctx context.Context, first int, patience time.Duration) (holds []engine.Held, refused int, err error) {
	members := t.lock.members
	holds = make([]engine.Held, 0, len(members))
	for k := range members {
		// first, and then the others in their order
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
		// Halves of a pair share their holder.
		ctx = engine.WithHold(ctx, h)
	}
	return holds, -1, nil
}

// wait says how long to wait for the k-th member of a round; less than 0 is
// without a bound.
func (t *taking) wait(k int, ordered bool, patience time.Duration, holds []engine.Held) time.Duration {
	switch {
	case t.once:
		return 0
	case k == 0 && t.deadline.IsZero():
		return -1
	case k == 0:
		return t.left(t.cfg.Wait)
	case !ordered:
		// Its holder may be waiting for what is held here.
		return 0
	}
	for _, h := range holds {
		patience = min(patience, h.Remaining()/2) // of a short lease
	}
	return t.left(patience)
}

// member takes one member.
func (t *taking) member(ctx context.Context, l latchkey.Locker, wait time.Duration) (engine.Held, error) {
	if wait < 0 {
		return heldBy(l.Lock(ctx, t.options(wait)))
	}
	return heldBy(l.TryLock(ctx, t.options(wait)))
}
