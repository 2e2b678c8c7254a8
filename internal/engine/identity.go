package engine

import (
	"context"
	"sync/atomic"
)

// holders numbers the holders of this process. No number is used twice. One
// number serves all clients, each of which puts its id before it.
var holders atomic.Uint64

// NewHolder returns a number that no holder of this process has had.
func NewHolder() uint64 { return holders.Add(1) }

// An identity is what a context says about the caller. Contexts nest, so
// identities form a chain, the innermost first.
type identity struct {
	outer  *identity
	holder uint64
	// hold is set for the identity of a Hold's Context. That identity counts
	// only for the locks of the Hold's scope, and only while the Hold is held.
	hold Held
}

type identityKey struct{}

func identityOf(ctx context.Context) *identity {
	id, _ := ctx.Value(identityKey{}).(*identity)
	return id
}

// WithHolder returns a context in which holder n acquires all locks.
func WithHolder(ctx context.Context, n uint64) context.Context {
	return context.WithValue(ctx, identityKey{}, &identity{outer: identityOf(ctx), holder: n})
}

// WithHold returns a context that re-enters what h's Context re-enters, but
// does not end when h does.
func WithHold(ctx context.Context, h Held) context.Context {
	return context.WithValue(ctx, identityKey{}, &identity{outer: identityOf(ctx), hold: h})
}

// WithoutHolder returns a context in which each acquire has a fresh holder.
func WithoutHolder(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, (*identity)(nil))
}

// ContextFor returns h's Context, as if h had been acquired under the identities of ctx.
func ContextFor(ctx context.Context, h Held) context.Context {
	return context.WithValue(h.Context(), identityKey{}, &identity{outer: identityOf(ctx), hold: h})
}

// HolderFrom returns the holder that WithHolder put into ctx.
func HolderFrom(ctx context.Context) (uint64, bool) {
	for id := identityOf(ctx); id != nil; id = id.outer {
		if id.hold == nil {
			return id.holder, true
		}
	}
	return 0, false
}

// HoldFrom returns the innermost hold whose Context is ctx or an ancestor of
// ctx, or nil.
func HoldFrom(ctx context.Context) Held {
	for id := identityOf(ctx); id != nil; id = id.outer {
		if id.hold != nil {
			return id.hold
		}
	}
	return nil
}

// LocalHolder returns the holder that ctx carries for s, a lock without an
// engine, if any.
func LocalHolder(ctx context.Context, s *Spec) (n uint64, ok bool) {
	return (*Engine)(nil).holderIn(ctx, s)
}

// holderIn returns the holder that ctx carries for s, if any: that of the
// innermost identity that counts for s.
func (e *Engine) holderIn(ctx context.Context, s *Spec) (n uint64, ok bool) {
	for id := identityOf(ctx); id != nil; id = id.outer {
		if id.hold == nil {
			return id.holder, true
		}
		if n, ok := id.hold.Speaks(e, s); ok {
			return n, true
		}
	}
	return 0, false
}
