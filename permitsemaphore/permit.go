package permitsemaphore

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// A Permit is one permit, from grant to release or loss. Whoever acquires must
// release; what is not released is renewed for as long as the process lives,
// unless a Lease or a MaxHold ends it.
//
// Goroutines may share a Permit, and any of them may release it. The methods of a
// nil Permit return ErrNotHeld or a zero value.
type Permit struct{ lease *engine.Lease }

// ID returns the id of the permit: 32 hex digits, as in Java. Any process may
// release the permit by it.
func (p *Permit) ID() string {
	if p == nil {
		return ""
	}
	return hex.EncodeToString([]byte(p.lease.ID()))
}

// Release gives the permit back, once. It ends its Context first.
//
// It does not stop when ctx is cancelled, so that a deferred Release works, but
// after the unlock timeout (WithUnlockTimeout). A nil error means that Redis has
// confirmed it. ErrNotHeld means that the permit was given back before, and
// together with ErrLeaseLost that it was lost: then Redis is asked once, for a
// second at most, to take back what it may have of it yet. After another error
// MaybeApplied tells whether Redis may still show it out: then Release may be called again,
// nothing renews the permit any more, and its lease, if it has one, ends it at
// the latest.
func (p *Permit) Release(ctx context.Context) error {
	if p == nil {
		return engine.ErrNotHeld
	}
	return p.lease.Return(ctx)
}

// Extend makes the lease last at least until d from now; it never shortens it.
// At least 3 ms. A permit that the watchdog renews goes on being renewed. One with a
// MaxHold is extended as far as that lets it, which Remaining tells; where that leaves
// nothing, the error says so. ErrNotHeld, with ErrLeaseLost if it was lost, means that
// there was nothing to extend. See [Semaphore.UpdateLease] for a shorter lease.
func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	if p == nil {
		return engine.ErrNotHeld
	}
	return p.lease.Extend(ctx, d)
}

// Context returns a context for the work under the permit. It is derived from
// the one given to the acquire, and it is done when the permit ends: on release,
// on loss with the cause ErrLeaseLost, on the client's Close with the cause
// ErrClosed. On loss it is done before Redis would give the permit to anybody
// else, as far as clocks can be trusted. Nobody hears of the loss of a Permanent
// one. The Context of a nil Permit is done.
func (p *Permit) Context() context.Context {
	if p == nil {
		return endedContext
	}
	return p.lease.Context()
}

// endedContext is the Context of a nil Permit.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(engine.ErrNotHeld)
	return ctx
}()

// Lost returns a channel that is closed when the permit is lost: its lease ended
// without a renewal, or a renewal found it gone. It is never closed by Release or
// Close. The Lost of a nil Permit is nil.
func (p *Permit) Lost() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.lease.Lost()
}

// Remaining returns how long the permit may still be believed in, 0 when it has
// ended. It asks nobody, and errs on the safe side. A Permanent permit has the
// longest Duration there is.
func (p *Permit) Remaining() time.Duration {
	if p == nil {
		return 0
	}
	return p.lease.Remaining()
}
