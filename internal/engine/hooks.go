package engine

import "time"

// Hooks are what an Observer comes to; each may be nil.
type Hooks struct {
	WaitStarted   func(kind, name string)
	Acquired      func(kind, name string, wait time.Duration, contended bool)
	Failed        func(kind, name string, wait time.Duration, err error)
	Released      func(kind, name string, held time.Duration)
	Renewed       func(kind, name string, lag time.Duration)
	RenewFailed   func(kind, name string, err error)
	Lost          func(kind, name string, held time.Duration)
	Undone        func(kind, name string)
	Resubscribed  func(channels int)
	ChannelDenied func(channel string, err error)
	Missed        func(kind, name string)
}

func (h Hooks) resubscribed(channels int) {
	if h.Resubscribed != nil {
		h.Resubscribed(channels)
	}
}
