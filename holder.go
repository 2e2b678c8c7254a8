package latchkey

import (
	"context"
	"strconv"

	"github.com/latchkey-go/latchkey/internal/engine"
)

type holderSeam = engine.HolderSeam // see internal/engine/seam.go

// A Holder is the party that holds locks: what Redisson calls "<client
// id>:<thread id>". A Holder is neither a goroutine nor a lock value; a context
// carries it. Holders are comparable. The zero Holder is nobody.
type Holder struct{ holderSeam }

// String returns the number of the holder. In Redis the number follows the
// client's id; Hold.HolderID returns both.
func (h Holder) String() string { return strconv.FormatUint(engine.NumberOf(h), 10) }

func newHolder(n uint64) Holder { return Holder{engine.NewHolderSeam(n)} }

// WithHolder returns a copy of ctx that carries a fresh holder: one identity
// for all locks, for the life of a worker. It corresponds to a thread in Java.
//
// Goroutines that share the returned context are one holder: they do not
// exclude each other, and each re-enters the locks that another has taken. Give
// every worker a context of its own.
//
// Without WithHolder, each hold has a holder of its own for as long as it
// lasts, and only the Context of the Hold re-enters the lock. The innermost
// identity counts: WithHolder on a Hold's Context makes a fresh holder for all
// locks, including the lock that is held.
func WithHolder(ctx context.Context) context.Context {
	return engine.WithHolder(ctx, engine.NewHolder())
}

// HolderFrom returns the holder that WithHolder put into ctx.
func HolderFrom(ctx context.Context) (h Holder, ok bool) {
	n, ok := engine.HolderFrom(ctx)
	return newHolder(n), ok
}
