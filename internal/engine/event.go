package engine

import (
	"encoding/hex"
	"os"
	"time"
)

// An Event is what a history keeps of a grant, or of the end of one.
type Event struct {
	What   string // one of the names below
	Kind   string // of the primitive: "rlock"
	Name   string // the key: with the key prefix
	Holder string // as the object shows it; empty if there is none, or nobody knows
	Label  string
	// Host and PID are those of the process that tells of a holder with a label, or that
	// has forced the lock open.
	Host   string
	PID    int
	At     time.Time     // by the client's estimate of the server's clock
	Wait   time.Duration // of an acquire, from the call; of a late renewal, how late it was
	Held   time.Duration // of what has ended, from the grant
	Reason string        // of a loss
	// Version is that of the module in the program that tells, where it is known.
	Version string
}

// The events.
const (
	Acquired = "acquired"
	Released = "released"
	Lost     = "lost"
	Forced   = "forced"
	Late     = "late" // a renewal in the last third of the lease
)

// A holder is what an event is about.
type holder interface {
	// shown returns who has it, as the object shows that, and the label.
	shown() (holder, label string)
}

// event completes ev, which has happened now: g is what was granted, renewed or has
// ended, or nil.
func (e *Engine) event(ev Event, s *Spec, g holder) Event {
	ev.Kind, ev.Name, ev.At = s.Kind, s.Key, e.Clock.At(time.Now())
	if g != nil {
		ev.Holder, ev.Label = g.shown()
	}
	if ev.Label != "" || ev.What == Forced {
		ev.Host, ev.PID = thisHost(), os.Getpid()
	}
	return ev
}

// acquired tells the history of a grant: of g, or of nothing that is given back.
func (c *attempt) acquired(g granted) {
	e := c.spec.engine
	if e.cfg.Event != nil {
		e.cfg.Event(e.event(Event{What: Acquired, Wait: time.Since(c.began())}, c.spec, g))
	}
}

// Forced tells the history that this client has forced s open, which the given holder
// had; it is empty where nobody knows.
func (e *Engine) Forced(s *Spec, holder string) {
	if e.cfg.Event != nil {
		e.cfg.Event(e.event(Event{What: Forced, Holder: holder}, s, nil))
	}
}

func (h *Hold) granted() (*Spec, time.Time)   { return h.spec, h.since }
func (h *Hold) shown() (holder, label string) { return h.HolderID(), h.cfg.Label }

func (hd *holding) shown() (holder, label string) { return hd.holder(), hd.labelled() }

func (l *Lease) granted() (*Spec, time.Time)   { return l.spec, l.since }
func (l *Lease) shown() (holder, label string) { return hex.EncodeToString([]byte(l.id)), l.cfg.Label }
