package permitsemaphore

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// A Permit is one permit, from grant to release or loss. The caller that
// acquires must release. A permit that is not released is renewed for as long
// as the process lives, unless a Lease or a MaxHold ends it.
//
// A Permit is safe for concurrent use, and any goroutine may release it. The
// methods of a nil Permit return ErrNotHeld or a zero value.
type Permit struct {
	lease *engine.Lease
	leash *engine.Leash // nil if nobody looks for forgotten permits
}

// ID returns the id of the permit: 32 hex digits, as in Java. Any process may
// release the permit by its id.
func (p *Permit) ID() string {
	if p == nil {
		return ""
	}
	p.leash.Spare() // who knows the id can release it
	return hex.EncodeToString([]byte(p.lease.ID()))
}

// Release gives the permit back. Call it once. It first ends the Permit's
// Context.
//
// Release ignores the cancellation of ctx, so that a deferred Release works; it
// stops after the unlock timeout (WithUnlockTimeout). A nil error means that
// Redis has confirmed the release. ErrNotHeld means that the permit was given
// back before. With ErrLeaseLost as well, it means that the permit was lost;
// Release then sends one request, for a second at most, that takes back what
// Redis may still have of this permit.
//
// After any other error, MaybeApplied reports whether Redis may still show the
// permit as out. The permit is no longer renewed; its lease, if it has one,
// ends it at the latest. Release may be called again.
func (p *Permit) Release(ctx context.Context) error {
	if p == nil {
		return engine.ErrNotHeld
	}
	defer p.leash.Keep()
	return p.lease.Return(ctx)
}

// Extend makes the lease last until at least d from now. It never shortens the
// lease. d is at least 3 ms. A permit that the watchdog renews continues to be
// renewed.
//
// A permit with a MaxHold is extended only as far as the MaxHold allows;
// Remaining returns the result. If the MaxHold leaves nothing, Extend returns
// an error. ErrNotHeld, with ErrLeaseLost if the permit was lost, means that
// there was nothing to extend. [Semaphore.UpdateLease] can shorten a lease.
func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	if p == nil {
		return engine.ErrNotHeld
	}
	return p.lease.Extend(ctx, d)
}

// Context returns a context for the work under the permit. It is derived from
// the context given to the acquire, and it is done when the permit ends: on
// release, on loss with the cause ErrLeaseLost, or on the client's Close with
// the cause ErrClosed. On loss it is done before Redis would give the permit to
// anybody else, as far as clocks can be trusted. The loss of a Permanent permit
// is not reported. The Context of a nil Permit is done.
func (p *Permit) Context() context.Context {
	if p == nil {
		return endedContext
	}
	return p.leash.Context(p.lease.Context())
}

// endedContext is the Context of a nil Permit.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(engine.ErrNotHeld)
	return ctx
}()

// Lost returns a channel that is closed when the permit is lost: its lease
// ended without a renewal, or a renewal found it gone. Release and Close never
// close it. The Lost of a nil Permit is nil.
func (p *Permit) Lost() <-chan struct{} {
	if p == nil {
		return nil
	}
	p.leash.Awaits()
	return p.lease.Lost()
}

// Remaining returns how long the permit may still be trusted, or 0 if it has
// ended. It sends no request and errs on the safe side. For a Permanent permit
// it returns the longest Duration.
func (p *Permit) Remaining() time.Duration {
	if p == nil {
		return 0
	}
	return p.lease.Remaining()
}
