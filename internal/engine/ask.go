package engine

import (
	"context"
	"errors"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/pubsub"
)

// Ask runs f, which asks Redis something for s, until it gets an answer: again
// after errors that pass, for as long as the answer timeout. A lost answer is asked
// for again only if f may be repeated.
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

// Aside runs f on a goroutine of its own and returns its error, or that of ctx, which f may
// outlive: go-redis does not always come back when a context ends.
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

// HeldBy returns how Redis names the holder in ctx for s; empty without one.
func (e *Engine) HeldBy(ctx context.Context, s *Spec) string {
	n, ok := e.holderIn(ctx, s)
	if !ok {
		return ""
	}
	return e.HolderID(n) + s.Suffix
}

// hints are a subscription as the wait loop sees it.
type hints struct{ *pubsub.Subscription }

// Live says whether messages arrive.
func (h hints) Live() bool { return h.State() == pubsub.Live }

// Dead says whether none ever will.
func (h hints) Dead() bool { return h.State() == pubsub.Denied }
