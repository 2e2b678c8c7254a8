package latchkey

import (
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Observer is a set of functions that hear what a client does. Each may be
// nil. They are called on the goroutine that does the thing, without any lock of
// the library held, and must return soon: a slow one slows down that acquire, or
// the watchdog. They must not call the client's Close, which would wait for them.
//
// kind is the package of the object ("rlock"), name is its name. Names are many:
// map them to classes before they become labels of a metric.
type Observer struct {
	// WaitStarted: an acquire was refused, or found others before it, and waits.
	WaitStarted func(kind, name string)
	// Acquired: an acquire succeeded after that time; contended says whether it
	// had to wait.
	Acquired func(kind, name string, wait time.Duration, contended bool)
	// AcquireFailed: an acquire ended with that error.
	AcquireFailed func(kind, name string, wait time.Duration, err error)
	// Released: a hold was given back after that time.
	Released func(kind, name string, held time.Duration)
	// Renewed: the watchdog renewed a lease, so long after it was due.
	Renewed func(kind, name string, lag time.Duration)
	// RenewFailed: a renewal got no answer. It is tried again; the hold is not
	// lost yet. err is nil where Redis answered but refused.
	RenewFailed func(kind, name string, err error)
	// Lost: a hold ended without Unlock, that long after the grant.
	Lost func(kind, name string, held time.Duration)
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

func (o Observer) hooks() engine.Hooks {
	return engine.Hooks{
		WaitStarted:   o.WaitStarted,
		Acquired:      o.Acquired,
		Failed:        o.AcquireFailed,
		Released:      o.Released,
		Renewed:       o.Renewed,
		RenewFailed:   o.RenewFailed,
		Lost:          o.Lost,
		Undone:        o.Undone,
		Resubscribed:  o.Resubscribed,
		ChannelDenied: o.ChannelDenied,
		Missed:        o.HintMissed,
	}
}
