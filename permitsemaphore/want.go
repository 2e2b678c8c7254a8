package permitsemaphore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A want is one caller's request for permits. The caller makes the ids of the
// permits, so that the script recognizes a repeated request.
type want struct {
	semaphore *Semaphore
	ctx       context.Context // the acquire's: parent of the Permits' Contexts
	cfg       *engine.LockConfig
	ids       []string
	lease     time.Duration    // 0 for a permanent permit
	sent      watchdog.Instant // when the last request was sent
	permits   []*Permit        // set once they are granted
}

var (
	_ engine.Group   = (*want)(nil)
	_ engine.Sweeper = (*want)(nil)
	_ engine.Lessee  = (*want)(nil)
)

func newWant(ctx context.Context, s *Semaphore, n int, cfg *engine.LockConfig) *want {
	w := &want{semaphore: s, ctx: ctx, cfg: cfg, lease: s.engine.LeaseTime(cfg)}
	b := make([]byte, idSize*n)
	_, _ = rand.Read(b) // never fails
	all := string(b)
	w.ids = make([]string, n)
	for i := range w.ids {
		w.ids[i] = all[idSize*i : idSize*(i+1)]
	}
	return w
}

// Ask requests the permits.
func (w *want) Ask(ctx context.Context, opts run.Options, d run.Deadline) (engine.Answer, error) {
	ans, _, err := w.AskAll(ctx, opts, d, nil)
	return ans, err
}

// AskAll requests the permits of w and of the others after it.
func (w *want) AskAll(ctx context.Context, opts run.Options, d run.Deadline, others []engine.Want) (engine.Answer, int, error) {
	wants := make([]*want, 1, 1+len(others))
	wants[0] = w
	for _, o := range others {
		wants = append(wants, o.(*want))
	}
	for _, w := range wants {
		w.sent = w.semaphore.engine.Instant()
	}
	return w.semaphore.scripts.acquire(ctx, w.semaphore.engine, opts, wants, d)
}

// Got makes the Permits. It returns ErrLeaseLost if the reply came too late.
func (w *want) Got() error {
	e := w.semaphore.engine
	for _, id := range w.ids {
		l := e.Lease(w.ctx, w.semaphore.spec, id, w.cfg, w.sent, w.lease)
		if l == nil {
			for _, p := range w.permits {
				p.lease.Drop()
			}
			w.permits = nil
			select {
			case <-e.Closed():
				return run.ErrClosed
			default:
				return errShort
			}
		}
		w.permits = append(w.permits, &Permit{lease: l})
	}
	return nil
}

// errShort is the ErrLeaseLost of a lease that ended before its grant was
// known.
var errShort = fmt.Errorf("%w: it was over before the answer came", engine.ErrLeaseLost)

// Leases returns the leases of the permits granted so far.
func (w *want) Leases() []*engine.Lease {
	leases := make([]*engine.Lease, len(w.permits))
	for i, p := range w.permits {
		leases[i] = p.lease
	}
	return leases
}

// Undo gives the permits back, if they are out.
func (w *want) Undo(ctx context.Context, opts run.Options) (engine.Status, error) {
	out, err := w.semaphore.scripts.Free(ctx, w.semaphore.engine, opts, w.ids, false, w.cfg.Label != "")
	if err != nil {
		return 0, err
	}
	for _, there := range out {
		if there {
			return engine.Granted, nil
		}
	}
	return engine.NotHolder, nil
}

// Sweep gives back permits that had ended already when a late request took them
// again.
func (w *want) Sweep(ctx context.Context, opts run.Options) error {
	var ids []string
	for _, p := range w.permits {
		if p.lease.Ended() {
			ids = append(ids, p.lease.ID())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := w.semaphore.scripts.Free(ctx, w.semaphore.engine, opts, ids, false, w.cfg.Label != "")
	return err
}

// Kept returns how long the permits stay out if nobody gives them back.
func (w *want) Kept() time.Duration {
	if w.lease > 0 {
		return w.lease
	}
	return engine.Remembered
}

// A request may be repeated: the script remembers its claim and number.
type request struct {
	engine   *engine.Engine
	ticket   *engine.Ticket
	claim    string // key of the claim
	deadline run.Deadline
}

func (s *Semaphore) request() *request {
	t := s.engine.Ticket()
	return &request{engine: s.engine, ticket: t, claim: names.Claim(s.spec.Key, t.ID)}
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
