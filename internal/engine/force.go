package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/latchkey-go/latchkey/internal/run"
)

// ForceHolder takes a lock from one holder, given as Redis shows it, whatever
// its hold count, and reports whether it had the lock. Any other holder keeps
// it.
func (e *Engine) ForceHolder(ctx context.Context, op string, s *Spec, holder string) (freed bool, err error) {
	if holder == "" {
		return false, e.Wrap(op, s, errNoHolder)
	}
	if s.Other != "" {
		holder = strings.TrimSuffix(holder, s.Other) // the holder as shown for the other half
	}
	if !strings.HasSuffix(holder, s.Suffix) {
		holder += s.Suffix
	}
	err = e.Ask(ctx, op, s, false, func(ctx context.Context, opts run.Options) error {
		// The hold may have a label, which is removed with it.
		ret := &Return{Holder: holder, Label: "?"}
		v, err := s.Scripts.Release(ctx, e, opts, ret)
		freed = v == Granted
		e.turn(s, ret.Next)
		return err
	})
	return freed, err
}

var errNoHolder = errors.New("the id of the holder is empty")
