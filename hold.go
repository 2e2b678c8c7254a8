package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

type holdSeam = engine.HoldSeam // see internal/engine/seam.go

// A Hold is one acquisition of a lock, from grant to Unlock or loss. Whoever
// acquires must Unlock; what is not given back is renewed for as long as the
// process lives, unless a Lease or a MaxHold ends it.
//
// Goroutines may share a Hold, and any of them may Unlock it. The methods of a
// nil Hold return ErrNotHeld or a zero value.
type Hold struct{ holdSeam }

// noHold is the *Error of a method of a nil Hold.
func noHold(op string) error { return newError(op, "latchkey", "", false, ErrNotHeld) }

// live returns what h stands for; nil for a nil Hold.
func (h *Hold) live() engine.Held {
	if h == nil {
		return nil
	}
	return engine.HeldOf(&h.holdSeam)
}

// Unlock gives the hold back: once for each Hold. When the holder has other
// holds of the lock, the lock stays held and its lease stays as it is.
//
// Do calls it and joins its error to the work's: use Do where the work is one
// function. Elsewhere defer it as
//
//	defer func() { _ = hold.Unlock(ctx) }()
//
// which says to readers, and to errcheck, that the error is left: the work has
// heard of a lost lease by the Context, and a lock that could not be given back ends
// with its lease.
//
// It does not stop when ctx is cancelled, so that a deferred Unlock works, but
// after the unlock timeout (WithUnlockTimeout). A nil error means that Redis has
// confirmed it. ErrNotHeld means that the Hold was given back before, and
// together with ErrLeaseLost that it was lost: then what Redis may have of it
// yet is given back, by one request that takes about a second at most. Nothing
// is taken from a successor. After another error MaybeApplied tells whether
// Redis may still show the lock held: then Unlock may be called again, nothing
// renews it any more, and its lease ends it at the latest.
func (h *Hold) Unlock(ctx context.Context) error {
	l := h.live()
	if l == nil {
		return noHold("unlock")
	}
	return l.Unlock(ctx)
}

// UnlockAsync is Unlock that does not wait. The channel gets one value and is
// closed.
func (h *Hold) UnlockAsync(ctx context.Context) <-chan error {
	ch := make(chan error, 1)
	go func() {
		ch <- h.Unlock(ctx)
		close(ch)
	}()
	return ch
}

// Context returns a context for the work under the lock. It is derived from the
// one given to the acquire, and it is done when the Hold ends: on Unlock, on
// loss with the cause ErrLeaseLost, on the client's Close with the cause
// ErrClosed. On loss it is done before Redis would let anybody else in, as far
// as clocks can be trusted.
//
// It also carries the holder: whatever acquires this lock with it re-enters the
// lock. Any other lock gets a fresh holder, so that goroutines that are started
// with it still exclude each other there.
//
// The Context of a nil Hold is done.
func (h *Hold) Context() context.Context {
	l := h.live()
	if l == nil {
		return endedContext
	}
	return l.Context()
}

// HoldFrom returns the Hold of which ctx is the Context, or whose Context ctx
// derives from: the innermost where they nest. So a function that runs inside Do
// finds the token, may Extend, and may watch Lost. ok is false where ctx comes from
// no Hold.
//
// What it returns stands for the same acquisition as the Hold that the acquire
// returned, ended or not. Whoever acquired gives it back: inside Do leave Unlock to
// Do.
func HoldFrom(ctx context.Context) (h *Hold, ok bool) {
	l := engine.HoldFrom(ctx)
	if l == nil {
		return nil, false
	}
	h = new(Hold)
	engine.Bind(h, l)
	return h, true
}

// endedContext is the Context of a nil Hold.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// Lost returns a channel that is closed when the hold is lost: its lease ended
// without a renewal, or Redis said that it is not ours any more. It is never
// closed by Unlock or Close. The Lost of a nil Hold is nil.
func (h *Hold) Lost() <-chan struct{} {
	l := h.live()
	if l == nil {
		return nil
	}
	return l.Lost()
}

// Extend makes the lease last at least until lease from now; it never shortens
// it. At least 3 ms. A hold that the watchdog renews goes on being renewed. One with a
// MaxHold is extended as far as that lets it, which Remaining tells; where that leaves
// nothing, the error says so, and the hold is as it was. ErrNotHeld, with ErrLeaseLost
// if it was lost, means that there was nothing to extend.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	l := h.live()
	if l == nil {
		return noHold("extend")
	}
	return l.Extend(ctx, lease)
}

// Remaining returns how long the hold may still be believed in, 0 when it has
// ended. It asks nobody, and errs on the safe side: it counts from before the
// last successful request was sent, by whichever of the machine's clocks says
// less, and takes off a margin.
func (h *Hold) Remaining() time.Duration {
	l := h.live()
	if l == nil {
		return 0
	}
	return l.Remaining()
}

// Token returns the fencing token of this acquisition, 0 if the lock gives none.
// A later acquisition has a greater token (docs/guarantees.md says what that rests
// on). Hand it to the resource that the lock
// protects, and let that refuse whoever comes with a lesser one than it has
// seen: nothing else keeps out a process that was paused beyond its lease.
func (h *Hold) Token() int64 {
	l := h.live()
	if l == nil {
		return 0
	}
	return l.Token()
}

// Holder returns the holder: that of WithHolder, where the acquire had one.
func (h *Hold) Holder() Holder {
	l := h.live()
	if l == nil {
		return Holder{}
	}
	return newHolder(l.Holder())
}

// HolderID returns the holder as Redis shows it: "<client id>:<number>".
func (h *Hold) HolderID() string {
	l := h.live()
	if l == nil {
		return ""
	}
	return l.HolderID()
}

// Name returns the name of the lock.
func (h *Hold) Name() string {
	l := h.live()
	if l == nil {
		return ""
	}
	return l.Name()
}
