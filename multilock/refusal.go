package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/latchkey-go/latchkey"
)

// refusal returns the error of a single round.
func (r *round) refusal(ctx context.Context, t *attempt) error {
	if r.answered >= t.lock.quorum {
		return join(t.taken(ctx, r), r.inDoubt())
	}
	return join(r.errs...)
}

// taken returns the reason of a refusal, with which the round r ended: others have a
// majority, or parts of one. With details it says who has members, whoever has most first.
func (t *attempt) taken(ctx context.Context, r *round) error {
	e := &latchkey.TakenError{Kind: "multilock", Name: t.lock.name}
	for _, err := range r.errs {
		if one := new(latchkey.TakenError); errors.As(err, &one) {
			e.Lease = max(e.Lease, one.Lease)
		}
	}
	if t.cfg.Part {
		return e
	}
	told := make([]*latchkey.TakenError, len(t.lock.members)) // a round ends before all have refused
	var all sync.WaitGroup
	for i, m := range t.lock.members {
		told[i] = &latchkey.TakenError{}
		if m.engine != nil {
			all.Go(func() { errors.As(m.engine.Refused(ctx, "", m.spec, 0), &told[i]) })
		}
	}
	all.Wait()
	// Without a label a holder is known by its id, which is another on each server.
	party := func(h latchkey.HolderInfo) string {
		if h.Host == "" {
			return h.ID
		}
		return fmt.Sprintf("%q %q %d", h.Label, h.Host, h.PID)
	}
	members := map[string]int{}
	for _, one := range told {
		e.Waiting = max(e.Waiting, one.Waiting)
		if e.At.IsZero() && (one.Err != nil || !one.At.IsZero()) {
			e.At, e.Err = one.At, one.Err
		}
		for _, h := range one.Holders {
			if members[party(h)]++; members[party(h)] == 1 {
				e.Holders = append(e.Holders, h)
			}
		}
	}
	slices.SortStableFunc(e.Holders, func(a, b latchkey.HolderInfo) int {
		return cmp.Compare(members[party(b)], members[party(a)])
	})
	return e
}

// inDoubt returns the errors of members that may have been granted and are
// being given back.
func (r *round) inDoubt() error {
	var errs []error
	for _, err := range r.errs {
		var e *latchkey.Error
		if errors.As(err, &e) && e.MaybeApplied() {
			errs = append(errs, err)
		}
	}
	return join(errs...)
}
