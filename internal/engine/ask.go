package engine

import (
	"context"
	"errors"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/pubsub"
)

// Ask calls f, which sends a request for s, until it gets a reply. It repeats f
// after temporary errors, for up to the answer timeout. After a lost reply it
// repeats f only if repeatable is set.
func (e *Engine) Ask(ctx context.Context, op string, s *Spec, repeatable bool, f func(ctx context.Context, opts run.Options) error) error {
	if s.err != nil {
		return e.Wrap(op, s, s.err)
	}
	if !e.gate.Enter() {
		return e.Wrap(op, s, run.ErrClosed)
	}
	defer e.gate.Leave()
	retry := e.NewRetrier(e.cfg.AnswerTimeout)
	for {
		opts := retry.Options()
		if !repeatable {
			opts = run.Options{Once: true, Within: e.cfg.AnswerTimeout}
		}
		err := f(ctx, opts)
		switch run.Classify(err) {
		case run.Executed, run.Permanent:
			return e.Wrap(op, s, err)
		case run.Unknown:
			if !repeatable {
				return e.Wrap(op, s, inDoubt{err})
			}
			if run.Hopeless(err) {
				return e.Wrap(op, s, err)
			}
		}
		if ctx.Err() != nil || errors.Is(err, run.ErrClosed) || retry.After(ctx, err) != nil {
			return e.Wrap(op, s, err)
		}
	}
}

// Aside calls f on a goroutine of its own and returns its error, or that of
// ctx. f may outlive ctx, because go-redis does not always return when a
// context ends.
func (e *Engine) Aside(ctx context.Context, op string, s *Spec, f func() error) error {
	switch {
	case e.Unfit() != nil:
		return e.Wrap(op, s, e.Unfit())
	case !e.gate.Enter():
		return e.Wrap(op, s, run.ErrClosed)
	}
	done := make(chan error, 1)
	go func() {
		defer e.gate.Leave()
		done <- f()
	}()
	select {
	case err := <-done:
		return e.Wrap(op, s, err)
	case <-ctx.Done():
		return e.Wrap(op, s, ctx.Err())
	case <-e.gate.Closed():
		return e.Wrap(op, s, run.ErrClosed)
	}
}

// HeldBy returns the holder in ctx for s as Redis names it, or "" if there is
// none.
func (e *Engine) HeldBy(ctx context.Context, s *Spec) string {
	n, ok := e.holderIn(ctx, s)
	if !ok {
		return ""
	}
	return e.HolderID(n) + s.Suffix
}

// hints adapts a subscription to the wait loop.
type hints struct{ *pubsub.Subscription }

// Live reports whether messages arrive.
func (h hints) Live() bool { return h.State() == pubsub.Live }

// Dead reports whether no message will ever arrive.
func (h hints) Dead() bool { return h.State() == pubsub.Denied }
