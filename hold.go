package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

type holdSeam = engine.HoldSeam // see internal/engine/seam.go

// A Hold is one acquisition of a lock, from grant to Unlock or loss. The caller
// that acquires must Unlock. A hold that is not unlocked is renewed for as long
// as the process lives, unless a Lease or a MaxHold ends it.
//
// A Hold is safe for concurrent use, and any goroutine may Unlock it. The
// methods of a nil Hold return ErrNotHeld or a zero value.
type Hold struct{ holdSeam }

// noHold returns the *Error for a method of a nil Hold.
func noHold(op string) error { return newError(op, "latchkey", "", false, ErrNotHeld) }

// live returns the acquisition behind h, or nil if h is nil.
func (h *Hold) live() engine.Held {
	if h == nil {
		return nil
	}
	return engine.HeldOf(&h.holdSeam)
}

// Unlock releases the hold. Call it once for each Hold. If the holder has other
// holds of the lock, the lock stays held and its lease does not change.
//
// Do calls Unlock and joins its error to that of the work: use Do where the
// work is one function. Elsewhere, defer it:
//
//	defer func() { _ = hold.Unlock(ctx) }()
//
// The blank assignment tells readers, and errcheck, that the error is ignored
// on purpose: the Context has already told the work about a lost lease, and a
// lock that could not be released ends with its lease.
//
// Unlock ignores the cancellation of ctx, so that a deferred Unlock works; it
// stops after the unlock timeout (WithUnlockTimeout). A nil error means that
// Redis has confirmed the release. ErrNotHeld means that the Hold was released
// before. With ErrLeaseLost as well, it means that the Hold was lost; Unlock
// then sends one request, for about a second at most, that releases what Redis
// may still have of this Hold. It takes nothing from a later holder.
//
// After any other error, MaybeApplied reports whether Redis may still show the
// lock as held. The lock is no longer renewed and ends with its lease at the
// latest. Unlock may be called again.
func (h *Hold) Unlock(ctx context.Context) error {
	l := h.live()
	if l == nil {
		return noHold("unlock")
	}
	return l.Unlock(ctx)
}

// UnlockAsync starts Unlock and returns at once. The channel receives one value
// and is then closed.
func (h *Hold) UnlockAsync(ctx context.Context) <-chan error {
	ch := make(chan error, 1)
	go func() {
		ch <- h.Unlock(ctx)
		close(ch)
	}()
	return ch
}

// Context returns a context for the work under the lock. It is derived from the
// context given to the acquire, and it is done when the Hold ends: on Unlock,
// on loss with the cause ErrLeaseLost, or on the client's Close with the cause
// ErrClosed. On loss it is done before Redis would let another holder in, as
// far as clocks can be trusted.
//
// The returned context carries the holder: an acquire of this lock with it
// re-enters the lock. An acquire of any other lock gets a fresh holder, so
// goroutines that share the context still exclude each other there.
//
// The Context of a nil Hold is done.
func (h *Hold) Context() context.Context {
	l := h.live()
	if l == nil {
		return endedContext
	}
	return l.Context()
}

// HoldFrom returns the Hold whose Context is ctx, or an ancestor of ctx; if
// Holds nest, it returns the innermost. A function that runs inside Do can thus
// read the token, call Extend, and watch Lost. ok is false if ctx comes from no
// Hold.
//
// The returned Hold stands for the same acquisition as the one that the acquire
// returned, whether or not that has ended. Whoever acquired it must release it;
// inside Do, leave Unlock to Do.
func HoldFrom(ctx context.Context) (h *Hold, ok bool) {
	h = new(Hold)
	if !engine.BindFrom(ctx, h) {
		return nil, false
	}
	return h, true
}

// endedContext is the Context of a nil Hold.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// Lost returns a channel that is closed when the hold is lost: its lease ended
// without a renewal, or Redis reported that the lock is no longer ours. Unlock
// and Close never close it. The Lost of a nil Hold is nil.
func (h *Hold) Lost() <-chan struct{} {
	l := h.live()
	if l == nil {
		return nil
	}
	return l.Lost()
}

// Extend makes the lease last until at least lease from now. It never shortens
// the lease. The least lease is 3 ms. A hold that the watchdog renews continues
// to be renewed.
//
// A hold with a MaxHold is extended only as far as the MaxHold allows;
// Remaining returns the result. If the MaxHold leaves nothing, Extend returns
// an error and the hold is unchanged. ErrNotHeld, with ErrLeaseLost if the hold
// was lost, means that there was nothing to extend.
func (h *Hold) Extend(ctx context.Context, lease time.Duration) error {
	l := h.live()
	if l == nil {
		return noHold("extend")
	}
	return l.Extend(ctx, lease)
}

// Remaining returns how long the hold may still be trusted, or 0 if it has
// ended. It sends no request and errs on the safe side: it counts from before
// the last successful request was sent, uses whichever of the machine's clocks
// leaves less, and subtracts a margin.
func (h *Hold) Remaining() time.Duration {
	l := h.live()
	if l == nil {
		return 0
	}
	return l.Remaining()
}

// Token returns the fencing token of this acquisition, or 0 if the lock has no
// tokens. A later acquisition has a greater token; docs/guarantees.md says what
// that depends on. Pass the token to the resource that the lock protects, and
// let the resource refuse a token smaller than the greatest it has seen.
// Nothing else keeps out a process that was paused beyond its lease.
func (h *Hold) Token() int64 {
	l := h.live()
	if l == nil {
		return 0
	}
	return l.Token()
}

// Holder returns the holder. It is the holder of WithHolder if the context of
// the acquire has one. Otherwise the lock makes one, which Holds that follow each
// other in one process may share: see [WithHandOver].
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
