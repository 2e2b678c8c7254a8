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

// A request may be repeated: the script remembers its claim and number.
type request struct {
	engine   *engine.Engine
	ticket   *engine.Ticket
	claim    string // key of the claim
	number   int64
	deadline run.Deadline
}

func newRequest(s *Semaphore) request {
	t := s.engine.Ticket()
	return request{engine: s.engine, ticket: t, claim: names.Claim(s.spec.Key, t.ID), number: t.Number}
}

// done returns the ticket for reuse, unless the request may still be on its
// way.
func (r *request) done(err error) {
	var e *latchkey.Error
	if errors.As(err, &e) && e.MaybeApplied() {
		return
	}
	r.engine.PutTicket(r.ticket)
}

// A want is one caller's request for permits.
type want struct {
	request
	semaphore *Semaphore
	n         int
}

var (
	_ engine.Group     = (*want)(nil)
	_ engine.Divisible = (*want)(nil)
)

// Units returns the number of permits requested.
func (w *want) Units() int { return w.n }

// Ask requests the permits.
func (w *want) Ask(ctx context.Context, opts run.Options, d run.Deadline) (engine.Answer, error) {
	w.deadline = d
	return w.semaphore.scripts.acquire(ctx, w.semaphore.engine, opts, w)
}

// AskAll requests the permits of w and of the others after it.
func (w *want) AskAll(ctx context.Context, opts run.Options, d run.Deadline, others []engine.Want) (engine.Answer, int, error) {
	w.deadline = d
	return w.semaphore.scripts.acquireMany(ctx, w.semaphore.engine, opts, w, others)
}

// Got is called when the permits are taken. There is nothing to keep.
func (*want) Got() error { return nil }

// Undo gives the permits back, if they are taken.
func (w *want) Undo(ctx context.Context, opts run.Options) (engine.Status, error) {
	return w.semaphore.scripts.undo(ctx, w.semaphore.engine, opts, w)
}

// Kept returns how long the script remembers that the permits were taken.
func (*want) Kept() time.Duration { return engine.Remembered }
