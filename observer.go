package latchkey

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Observer is a set of functions that hear what a client does. Each may be
// nil, and then costs nothing. They are called on the goroutine that does the
// thing, without any lock of the library held, and must return soon: a slow one
// slows down that acquire, or the watchdog. They must not call the client's
// Close, which would wait for them, nor panic: what was granted would stay taken,
// and be renewed, though its caller never had it.
//
// kind is the package of the object ("rlock"), name is its name. Names are many:
// map them to classes before they become labels of a metric. The modules
// latchkey/prom and latchkey/otel do.
type Observer struct {
	// WaitStarted: an acquire was refused, or found others before it, and waits.
	// ctx is that of the acquire. It is called once at most; Acquired or
	// AcquireFailed follows, with Contended set.
	WaitStarted func(ctx context.Context, kind, name string)
	// Acquired: an acquire succeeded.
	Acquired func(ctx context.Context, a Acquisition)
	// AcquireFailed: an acquire ended with that error.
	AcquireFailed func(ctx context.Context, a Acquisition, err error)
	// Released: a hold or a permit ended that long after the grant, by an Unlock
	// (even if Redis does not answer it) or by Close. For each that Acquired has
	// told of, there is one Released or one Lost, and never both.
	Released func(kind, name string, held time.Duration)
	// Renewed: the watchdog renewed a lease, so long after it was due.
	Renewed func(kind, name string, lag time.Duration)
	// RenewFailed: a renewal got no answer. It is tried again; the hold is not
	// lost yet. err is nil where Redis answered but refused.
	RenewFailed func(kind, name string, err error)
	// Lost: a hold or a permit ended without Unlock, that long after the grant.
	Lost func(kind, name string, held time.Duration, reason LossReason)
	// Undone: an acquire that had ended with an error turned out to have been
	// granted, and was taken back.
	Undone func(kind, name string)
	// Resubscribed: the connection for wake-ups was replaced; that many Redis
	// channels were subscribed again, and their waiters look again.
	Resubscribed func(channels int)
	// ChannelDenied: Redis refused a subscription with an error that is
	// ErrChannelDenied. Waiters of that Redis channel poll.
	ChannelDenied func(channel string, err error)
	// HintMissed: a waiter's recheck found free what no message had announced.
	HintMissed func(kind, name string)
}

// An Acquisition is an acquire that has ended, as an Observer hears of it.
type Acquisition struct {
	Kind, Name string
	Wait       time.Duration // from the call to its end
	Contended  bool          // it had to wait for somebody
	// Holds is how many holds or permits it has brought: 0 where there is nothing
	// to give back by itself (semaphore, countdownlatch), or on failure.
	Holds int
}

// A LossReason says why a hold was lost.
type LossReason string

// Why holds are lost.
const (
	// LossExpired: no renewal succeeded in time.
	LossExpired = LossReason(engine.LossExpired)
	// LossTaken: Redis says that it is not ours any more: somebody has forced it
	// open, or the data is gone.
	LossTaken = LossReason(engine.LossTaken)
	// LossLimit: the Lease or the MaxHold that the acquire asked for is over.
	LossLimit = LossReason(engine.LossLimit)
)

// Outcome sorts the error of an acquire for a metric: "acquired" for nil,
// "refused" for ErrNotAcquired, "canceled" when the context ended the wait,
// "closed" for ErrClosed, and "failed" for the rest.
func Outcome(err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, ErrNotAcquired):
		return "refused"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	case errors.Is(err, ErrClosed):
		return "closed"
	}
	return "failed"
}

func (o Observer) hooks() engine.Hooks {
	h := engine.Hooks{
		WaitStarted:   o.WaitStarted,
		Released:      o.Released,
		Renewed:       o.Renewed,
		RenewFailed:   o.RenewFailed,
		Undone:        o.Undone,
		Resubscribed:  o.Resubscribed,
		ChannelDenied: o.ChannelDenied,
		Missed:        o.HintMissed,
	}
	if f := o.Acquired; f != nil {
		h.Acquired = func(ctx context.Context, a engine.Acquisition) { f(ctx, Acquisition(a)) }
	}
	if f := o.AcquireFailed; f != nil {
		h.Failed = func(ctx context.Context, a engine.Acquisition, err error) { f(ctx, Acquisition(a), err) }
	}
	if f := o.Lost; f != nil {
		h.Lost = func(kind, name string, held time.Duration, why engine.LossReason) {
			f(kind, name, held, LossReason(why))
		}
	}
	return h
}
