package latchkey

import (
	"context"
	"log/slog"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// A SlowWait is a call that has waited for long: see WithSlowWait.
type SlowWait struct {
	Kind   string        // the package of the object: "rlock", …
	Name   string        // the object, as the user named it
	Waited time.Duration // since the call began
	// Place is the place in line, the next caller first: among all waiters for a
	// fair lock, and among those of this client for other objects.
	Place int

	// Holders, Waiting, Count and At are what Info told after that time; see
	// TakenError.
	Holders []HolderInfo
	Waiting int
	Count   int64
	At      time.Time
	Err     error // why Info could not be read; nil if it could

	// Acquired is where this client acquired what the call waits for:
	// "file.go:12". It is empty if somebody else has it.
	Acquired string
	// Reenters reports that this client acquired it with the context that waits
	// now, or with one that differs only in its values. If that was the same
	// caller, it waits for itself: the Context of its Hold would re-enter, as the
	// ctx that Do passes to its function does. Callers that share a context only
	// wait for each other. A context that cannot be cancelled counts as nobody's.
	Reenters bool
}

// WithSlowWait reports calls that wait for long: after d, at twice that, and so
// on. Each report is one line of the logger (WithLogger), and a call of
// Observer.SlowWait. It tells who has the object and since when, the caller's
// place in line, and where this process acquired it, if it did. The least d is
// 10 ms. Default: no reports.
//
// A report costs one Info, which the reports of one object in a second share.
// While anybody waits, one goroutine of the client looks eight times in d; an
// acquire notes where it was called. Without the option nothing of that happens.
// Of a multi-lock the wait for a member is reported, and of a Redlock that for its
// first member.
func WithSlowWait(d time.Duration) Option {
	between("WithSlowWait", d, 10*time.Millisecond)
	return optionFunc(func(c *engine.Config) { c.SlowWait = d })
}

// A slowReporter reports the slow waits of a client, one after the other.
type slowReporter struct {
	client  *Client
	log     *slog.Logger
	observe func(any)

	name string // of info
	read time.Time
	info Info
	err  error
}

// look returns what Info tells of name, less than a second ago. Where Redis is silent it
// asks once in that time, for whichever name.
func (r *slowReporter) look(ctx context.Context, name string) (Info, error) {
	lately := time.Since(r.read) < time.Second
	if lately && r.err != nil {
		return Info{}, r.err
	}
	if name != r.name || !lately {
		ctx, cancel := context.WithTimeout(ctx, takenPatience)
		defer cancel()
		r.info, r.err = r.client.Info(ctx, name)
		r.name, r.read = name, time.Now()
	}
	return r.info, r.err
}

// report reports a slow wait.
func (r *slowReporter) report(ctx context.Context, w engine.SlowWait) {
	s := SlowWait{Kind: w.Kind, Name: w.Name, Waited: w.Waited, Place: w.Place}
	info, err := r.look(ctx, w.Name)
	s.Holders, s.Waiting, s.Count, s.At, s.Err = info.Holders, len(info.Waiters), info.Count, info.At, err
	for i, other := range info.Waiters {
		if w.ID != "" && other.ID == w.ID && info.Kind == KindFair {
			s.Place = i + 1
		}
	}
	for _, own := range w.Own {
		if s.Acquired == "" || own.Reenters {
			s.Acquired, s.Reenters = own.Acquired, own.Reenters
		}
	}
	args := []any{"kind", s.Kind, "name", s.Name, "waited", short(s.Waited), "place", s.Place}
	if len(s.Holders) > 0 {
		h := &s.Holders[0]
		args = append(args, "holder", h.ID)
		if h.Label != "" {
			args = append(args, "label", h.Label)
		}
		if h.Host != "" {
			args = append(args, "host", h.Host, "pid", h.PID, "since", h.Since)
		}
		if !h.Ended.IsZero() {
			args = append(args, "ended", h.Ended) // it stays closed for its HoldAtLeast
		}
		if n := len(s.Holders) - 1; n > 0 {
			args = append(args, "more", n)
		}
	}
	if s.Acquired != "" {
		args = append(args, "acquired", s.Acquired)
	}
	if s.Reenters {
		args = append(args, "hint", "acquired with the same context: a caller that waits for itself re-enters with the Context of its Hold, or the ctx of Do")
	}
	if s.Err != nil {
		args = append(args, "err", s.Err)
	}
	r.log.Warn("latchkey: a call waits", args...)
	if r.observe != nil {
		r.observe(s)
	}
}
