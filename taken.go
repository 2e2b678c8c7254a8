package latchkey

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// A TakenError says which object refused an acquire, and who has it. It is the
// reason behind ErrNotAcquired: errors.Is(err, ErrNotAcquired) is true for it,
// and errors.As finds it in the error of a call:
//
//	var taken *latchkey.TakenError
//	if errors.As(err, &taken) && taken.Name == "deploy" { … }
//
// Kind and Name tell the refusal of this object from one of an object that the
// caller's own code has asked for in between. If Redis did not answer, so that
// nobody knows who has the object, there is no TakenError.
type TakenError struct {
	Kind string // the package of the object: "rlock", …
	Name string // the object, as the user named it
	// Lease is how long the object stays taken at most if nobody renews it, as
	// the refusal told. It is 0 if unknown.
	Lease time.Duration

	// The rest is set with WithTakenDetails. It is what Info tells, read after
	// the refusal: the object may have been released or taken since.

	// Holders are the holders of a lock, or the permits that are out.
	Holders []HolderInfo
	// Waiting is how many callers wait, as in Info.Waiters.
	Waiting int
	// Count is the number of available permits of a semaphore, or the remaining
	// count of a latch.
	Count int64
	// At is the moment of the reading, by the server's clock; zero if there was
	// none.
	At time.Time
	// Err is why the details could not be read; nil if they could.
	Err error
}

// Error returns one line: "not acquired", and with details who has the object.
// Names and labels of others are quoted where they are not plain.
func (e *TakenError) Error() string {
	var b strings.Builder
	b.WriteString(ErrNotAcquired.Error())
	switch {
	case e.At.IsZero():
		return b.String()
	case len(e.Holders) > 0:
		if e.Holders[0].Ended.IsZero() {
			b.WriteString(": held by ")
		} else {
			b.WriteString(": closed until its minimum time by ")
		}
		b.WriteString(e.Holders[0].who(e.At))
		if n := len(e.Holders) - 1; n > 0 {
			fmt.Fprintf(&b, ", and %d more", n)
		}
	case e.Kind == "countdownlatch":
		fmt.Fprintf(&b, ": the count is %d", e.Count)
	case e.Kind == "semaphore" || e.Kind == "permitsemaphore":
		fmt.Fprintf(&b, ": %d permits available", e.Count)
	default:
		b.WriteString(": released since")
	}
	if e.Waiting > 0 {
		fmt.Fprintf(&b, ", %d waiting", e.Waiting)
	}
	return b.String()
}

// Unwrap returns ErrNotAcquired.
func (e *TakenError) Unwrap() error { return ErrNotAcquired }

// who describes the holder: `ann (ci-1:812) for 3m12s, lease 21s`, or `ann
// (ci-1:812), which ended 12s ago, 48s left`.
func (h *HolderInfo) who(at time.Time) string {
	var b strings.Builder
	switch {
	case h.Label != "":
		b.WriteString(plain(h.Label))
	default:
		b.WriteString(plain(h.ID))
	}
	if h.Host != "" {
		fmt.Fprintf(&b, " (%s:%d)", plain(h.Host), h.PID)
	}
	if !h.Ended.IsZero() {
		fmt.Fprintf(&b, ", which ended %v ago", short(max(at.Sub(h.Ended), 0)))
		if h.Lease > 0 {
			fmt.Fprintf(&b, ", %v left", short(h.Lease))
		}
		return b.String()
	}
	if held := at.Sub(h.Since); !h.Since.IsZero() && held >= 0 {
		fmt.Fprintf(&b, " for %v", short(held))
	}
	if h.Lease > 0 {
		fmt.Fprintf(&b, ", lease %v", short(h.Lease))
	}
	return b.String()
}

// plain returns text as it is if it is one plain word, and quoted otherwise.
func plain(text string) string {
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.:/@", c) >= 0:
		default:
			return quoted(text)
		}
	}
	if len(text) > maxQuoted {
		return quoted(text)
	}
	return text
}

// short rounds d for people.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// takenPatience bounds how long a refused call reads who has the object.
const takenPatience = time.Second

// taken returns the reason of a refusal.
func (c *Client) taken(ctx context.Context, kind, name string, left time.Duration, details bool) error {
	e := &TakenError{Kind: kind, Name: name, Lease: left}
	if !details {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, takenPatience)
	defer cancel()
	info, err := c.Info(ctx, name)
	if err != nil {
		e.Err = err
		return e
	}
	e.Holders, e.Waiting, e.Count, e.At = info.Holders, len(info.Waiters), info.Count, info.At
	return e
}

// WithTakenDetails makes an acquire that is refused read who has the object,
// for the TakenError in its error: one Info more, on a refusal only, for at
// most a second. Default: a refusal tells its lease only.
//
// An acquire that waits reads it once, at the end of its Wait. A lock made of
// others tells who has the member that refused. A Redlock reads all members at
// once, and whoever has most of them is the first of Holders; holders of one
// process with one label count as one. The details need the rights of Info;
// without them TakenError.Err says why there are none.
func WithTakenDetails() Option {
	return optionFunc(func(c *engine.Config) { c.TakenDetails = true })
}
