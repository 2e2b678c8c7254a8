package latchkey

import (
	"context"
	"strconv"

	"github.com/latchkey-go/latchkey/internal/engine"
)

type holderSeam = engine.HolderSeam // see internal/engine/seam.go

// A Holder is the party that holds locks: what Redisson calls
// "<client id>:<thread id>". It is never a goroutine and never a lock value; it
// travels in a context. Holders are comparable, and the zero Holder is nobody.
type Holder struct{ holderSeam }

// String returns the number of the holder, which stands in Redis behind the
// client's id; see Hold.HolderID for both.
func (h Holder) String() string { return strconv.FormatUint(engine.NumberOf(h), 10) }

func newHolder(n uint64) Holder { return Holder{engine.NewHolderSeam(n)} }

// WithHolder returns a copy of ctx that carries a fresh holder: one identity for
// all locks, for the life of a worker. It is the direct port of a Java thread.
//
// Goroutines that share the returned context are one holder: they do not exclude
// each other, and each of them re-enters what another has taken. Give every
// worker a context of its own.
//
// Without it, each acquisition has a holder of its own, and only the Context of
// the Hold re-enters the lock. The innermost identity counts: under a Hold's
// Context, WithHolder starts afresh, also for the lock that is held.
func WithHolder(ctx context.Context) context.Context {
	return engine.WithHolder(ctx, engine.NewHolder())
}

// HolderFrom returns the holder that WithHolder put into ctx.
func HolderFrom(ctx context.Context) (h Holder, ok bool) {
	n, ok := engine.HolderFrom(ctx)
	return newHolder(n), ok
}
