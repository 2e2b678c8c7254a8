package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// ForceHolder takes a lock from one holder, given as Redis shows it, whatever
// its hold count, and reports whether it had the lock. Any other holder keeps
// it.
func (e *Engine) ForceHolder(ctx context.Context, op string, s *Spec, holder string) (freed bool, err error) {
	if holder == "" {
		return false, e.Wrap(op, s, errNoHolder)
	}
	holder = s.Field(holder)
	err = e.Ask(ctx, op, s, false, func(ctx context.Context, opts run.Options) error {
		// The hold may have a label, which is removed with it.
		ret := &Return{Holder: holder, Label: "?"}
		v, err := s.Scripts.Release(ctx, e, opts, ret)
		freed = v == Granted
		e.turn(s, ret.Next)
		return err
	})
	if freed {
		e.Forced(s, strings.TrimSuffix(holder, s.Suffix))
	}
	return freed, err
}

// Field returns the field of the hash for a holder as Redis shows it.
func (s *Spec) Field(holder string) string {
	if s.Other != "" {
		holder = strings.TrimSuffix(holder, s.Other) // the holder as shown for the other half
	}
	if !strings.HasSuffix(holder, s.Suffix) {
		holder += s.Suffix
	}
	return holder
}

// ExtendHolder makes the lease of one holder, given as Redis shows it, last for
// at least lease from now, and reports whether the holder has the lock. count is
// its hold count if each of its holds has a lease of its own.
func (e *Engine) ExtendHolder(ctx context.Context, op string, s *Spec, holder string, count int, lease time.Duration) (extended bool, err error) {
	if holder == "" {
		return false, e.Wrap(op, s, errNoHolder)
	}
	if err := CheckTime("a lease", lease); err != nil {
		return false, e.Wrap(op, s, err)
	}
	// The hold may have a label, which lasts as long.
	r := Renewal{Key: s.Key, Holder: s.Field(holder), Count: count, Label: "?", Lease: lease.Truncate(time.Millisecond)}
	err = e.Change(ctx, op, s, func(ctx context.Context, opts run.Options, _ run.Deadline) (Status, error) {
		results, err := e.renewAll(ctx, opts, s.Renewer, []Renewal{r}, e.cfg.Acks.Renewals)
		switch {
		case err != nil:
			return Refused, err
		case results == nil || results[0] == watchdog.Failed:
			return PastDeadline, nil // nothing is known
		}
		extended = results[0] == watchdog.Extended
		return Granted, nil
	})
	return extended, err
}

var errNoHolder = errors.New("the id of the holder is empty")
