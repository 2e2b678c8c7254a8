package engine

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/direct"
)

// straight sends a script on a connection of the engine's own, on the caller's
// goroutine. sent is false where there is none, or another way is better: with many
// commands under way that is a pipeline.
//
// What it sends is what process sends, and its errors are sorted as those are.
func (e *Engine) straight(ctx context.Context, args []any) (a direct.Answer, sent bool, err error) {
	if e.own == nil || e.underway.Load() >= pipeFrom {
		return a, false, nil
	}
	if _, ok := ctx.(*acked); ok || ctx.Err() != nil {
		return a, false, nil
	}
	c := e.own.Get()
	if c == nil {
		return a, false, nil
	}
	e.underway.Add(1)
	defer e.underway.Add(-1)
	if clean, ok := ctx.(*cleanup); ok && clean.tells {
		a, err = c.DoLast(args)
	} else {
		a, err = c.Do(args)
	}
	if errors.Is(err, direct.ErrPending) {
		a, err = e.readOn(ctx, c)
		return a, true, err
	}
	c.Put()
	if errors.Is(err, direct.ErrArgument) {
		return a, false, nil
	}
	return a, true, e.ended(ctx, err)
}

// readOn waits for an answer that has not come soon, as process does: for the end of
// ctx, or for Close, too. Whoever reads may outlive the call.
func (e *Engine) readOn(ctx context.Context, c *direct.Conn) (direct.Answer, error) {
	var a direct.Answer
	most, closed := e.reads, e.gate.closed
	if clean, ok := ctx.(*cleanup); ok {
		closed = nil
		if clean.brief {
			most = min(most, returnBound)
		}
	}
	if ctx.Done() == nil {
		most = min(most, answerWithin)
	}
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= returnBound {
		most = min(most, returnBound) // nobody waits longer: the connection is free again the sooner
	}
	var late direct.Answer
	done := make(chan error, 1)
	go func() {
		var err error
		late, err = c.Finish(most)
		c.Put()
		done <- err
	}()
	answered, err := e.await(ctx, done, closed)
	if answered {
		a = late
	}
	return a, err
}
