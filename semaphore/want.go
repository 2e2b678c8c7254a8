package semaphore

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A request is one that may be made again: the script remembers it.
type request struct {
	engine   *engine.Engine
	ticket   *engine.Ticket
	claim    string // key in which it is remembered
	number   int64
	deadline run.Deadline
}

func newRequest(s *Semaphore) request {
	t := s.engine.Ticket()
	return request{engine: s.engine, ticket: t, claim: names.Claim(s.spec.Key, t.ID), number: t.Number}
}

// done gives the ticket back, unless the request may be on its way yet.
func (r *request) done(err error) {
	var e *latchkey.Error
	if errors.As(err, &e) && e.MaybeApplied() {
		return
	}
	r.engine.PutTicket(r.ticket)
}

// A want is one caller's wish for permits.
type want struct {
	request
	semaphore *Semaphore
	n         int
}

var (
	_ engine.Group     = (*want)(nil)
	_ engine.Divisible = (*want)(nil)
)

// Units is how many permits it wants.
func (w *want) Units() int { return w.n }

// Ask asks for the permits.
func (w *want) Ask(ctx context.Context, opts run.Options, d run.Deadline) (engine.Answer, error) {
	w.deadline = d
	return w.semaphore.scripts.acquire(ctx, w.semaphore.engine, opts, w)
}

// AskAll asks for the permits of w, and of others after it.
func (w *want) AskAll(ctx context.Context, opts run.Options, d run.Deadline, others []engine.Want) (engine.Answer, int, error) {
	w.deadline = d
	return w.semaphore.scripts.acquireMany(ctx, w.semaphore.engine, opts, w, others)
}

// Got says that the permits are taken; there is nothing to keep.
func (*want) Got() error { return nil }

// Undo gives them back, if they are taken.
func (w *want) Undo(ctx context.Context, opts run.Options) (engine.Status, error) {
	return w.semaphore.scripts.undo(ctx, w.semaphore.engine, opts, w)
}

// Kept is for how long the script remembers that they were taken.
func (*want) Kept() time.Duration { return engine.Remembered }
