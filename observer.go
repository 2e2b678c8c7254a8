package latchkey

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Observer is a set of functions that a client calls when something happens.
// Each may be nil, and then costs nothing. A function is called on the
// goroutine that does the thing, with no lock of the library held. It must
// return soon: a slow function slows down that acquire, or the watchdog. It
// must not call the client's Close, which would wait for it. It must not panic:
// what was granted would stay held and be renewed, though its caller never
// received it.
//
// kind is the package of the object ("rlock"); name is its name. There are many
// names: map them to classes before they become labels of a metric. The modules
// latchkey/prom and latchkey/otel do.
type Observer struct {
	// WaitStarted: an acquire was refused, or found waiters before it, and
	// waits. ctx is the context of the acquire. WaitStarted is called at most
	// once for an acquire; Acquired or AcquireFailed follows, with Contended
	// set.
	WaitStarted func(ctx context.Context, kind, name string)
	// Acquired: an acquire succeeded.
	Acquired func(ctx context.Context, a Acquisition)
	// AcquireFailed: an acquire ended with an error.
	AcquireFailed func(ctx context.Context, a Acquisition, err error)
	// Released: a hold or a permit was ended by an Unlock (even if Redis does
	// not answer it) or by Close. held is the time since the grant. Each grant
	// that Acquired reports is followed by one Released or one Lost, never
	// both.
	Released func(kind, name string, held time.Duration)
	// Renewed: the watchdog renewed a lease. lag is how late the renewal was.
	Renewed func(kind, name string, lag time.Duration)
	// RenewFailed: a renewal failed. It is tried again, and the hold is not
	// lost yet. err is nil if Redis answered but refused.
	RenewFailed func(kind, name string, err error)
	// Lost: a hold or a permit ended without Unlock. held is the time since the
	// grant.
	Lost func(kind, name string, held time.Duration, reason LossReason)
	// Undone: an acquire that had ended with an error had been granted after
	// all, and was taken back.
	Undone func(kind, name string)
	// Resubscribed: the connection for wake-ups was replaced. channels is how
	// many Redis channels were subscribed again; their waiters ask again.
	Resubscribed func(channels int)
	// ChannelDenied: Redis refused a subscription. err is an ErrChannelDenied.
	// Waiters on that Redis channel poll.
	ChannelDenied func(channel string, err error)
	// HintMissed: a waiter's recheck found the object free although no message
	// had announced it.
	HintMissed func(kind, name string)
	// SlowWait: a call has waited for the time of WithSlowWait, or for twice, four
	// times, … that. It is called on a goroutine of the client.
	SlowWait func(w SlowWait)
}

// An Acquisition describes an acquire that has ended.
type Acquisition struct {
	Kind, Name string
	Wait       time.Duration // from the call to its end
	Contended  bool          // it had to wait for another holder or waiter
	// Holds is how many holds or permits the acquire has brought. It is 0 on
	// failure, and for objects whose acquires are not given back one by one
	// (semaphore, countdownlatch).
	Holds int
}

// A LossReason says why a hold was lost.
type LossReason string

// The reasons for which holds are lost.
const (
	// LossExpired: no renewal succeeded in time.
	LossExpired = LossReason(engine.LossExpired)
	// LossTaken: Redis reported that the lock is no longer ours: somebody
	// forced it open, or the data is gone.
	LossTaken = LossReason(engine.LossTaken)
	// LossLimit: the Lease or the MaxHold of the acquire is over.
	LossLimit = LossReason(engine.LossLimit)
)

// Outcome classifies the error of an acquire for a metric: "acquired" for nil,
// "refused" for ErrNotAcquired, "canceled" if the context ended the wait,
// "closed" for ErrClosed, and "failed" otherwise.
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
	if f := o.SlowWait; f != nil {
		h.SlowWait = func(w any) { f(w.(SlowWait)) }
	}
	return h
}
