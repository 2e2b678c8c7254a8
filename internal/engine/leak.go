package engine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Leaks says what is done about what was never given back.
type Leaks int

// What is done; by itself, nothing.
const (
	LeakLog     Leaks = iota + 1 // it is logged
	LeakRelease                  // it is logged and given back
)

// An Origin says where something was acquired, and whether anybody can still give it
// back. A Hold or a Lease has one if that is wanted.
type Origin struct {
	at      place
	done    <-chan struct{} // Done of the context with which a Hold was acquired
	watched bool            // it is looked for when it is garbage
	// spared is set when it can be given back without the Hold or Permit.
	spared atomic.Bool
	// awaited is set when the channel of Lost was asked for. It may be all that a worker
	// looks at, and giving back does not close it.
	awaited atomic.Bool
	// forgotten is set when the Hold or Permit and its contexts are garbage. The next
	// renewal reports it.
	forgotten atomic.Bool
	told      *atomic.Bool // that it was forgotten; the parts of one Hold share it
}

// newOrigin returns the origin of what the caller acquires, or nil if it is not wanted.
// It is watched if only its Hold or Permit can give it back.
func (e *Engine) newOrigin(watched bool) *Origin {
	watched = watched && e.cfg.Leaks != 0
	if !watched && e.cfg.SlowWait == 0 {
		return nil
	}
	at := make(place, 24)
	return &Origin{at: at[:runtime.Callers(3, at)], watched: watched, told: new(atomic.Bool)}
}

// where returns where it was acquired: "file.go:12".
func (o *Origin) where() string {
	if o == nil {
		return ""
	}
	return o.at.String()
}

// under reports whether it was acquired with the context that has this Done channel. A
// context that cannot be cancelled has none, and may be anybody's.
func (o *Origin) under(done <-chan struct{}) bool {
	return o != nil && done != nil && o.done == done
}

// leaks reports, once, whether it has been forgotten.
func (o *Origin) leaks() bool {
	return o != nil && o.forgotten.Load() && !o.spared.Load() && o.told.CompareAndSwap(false, true)
}

// leaked reports what was forgotten and gives it back if that is wanted.
func (e *Engine) leaked(s *Spec, id string, o *Origin, since time.Time, giveBack func(context.Context) error) {
	if !e.gate.Enter() {
		return
	}
	go func() {
		defer e.gate.Leave()
		var err error
		release := e.cfg.Leaks == LeakRelease && !o.awaited.Load()
		if release {
			err = giveBack(e.gate.Late())
		}
		args := []any{"kind", s.Kind, "name", s.Name, "holder", id, "since", since, "acquired", o.where(), "released", release && err == nil}
		if err != nil {
			args = append(args, "err", err)
		}
		e.cfg.Logger.Warn("latchkey: it was never given back, and nobody can do it any more", args...)
	}()
}

// A Leash is garbage when that through which a user can give something back is, and its
// contexts.
type Leash struct {
	of   []*Origin
	held Held // of a Hold

	mu    sync.Mutex
	ctx   *leashedContext // made on demand
	outer *Leash          // of the context that ctx derives from
}

// NewLeash returns a leash for what has these origins, or nil if none is watched.
func NewLeash(of ...*Origin) *Leash {
	n := 0
	for _, o := range of {
		if o != nil && o.watched {
			of[n] = o
			n++
		}
	}
	if n == 0 {
		return nil
	}
	l := &Leash{of: of[:n]}
	for _, o := range l.of {
		o.told = l.of[0].told
	}
	runtime.AddCleanup(l, func(of []*Origin) {
		// This goroutine belongs to nobody: what must be done is done by the renewal.
		for _, o := range of {
			o.forgotten.Store(true)
		}
	}, l.of)
	return l
}

// Keep keeps l from being garbage before the call.
func (l *Leash) Keep() { runtime.KeepAlive(l) }

// Spare says that there is another way to give it back from now on.
func (l *Leash) Spare() {
	if l == nil {
		return
	}
	for _, o := range l.of {
		o.spared.Store(true)
	}
}

// Awaits says that somebody may look at the channel of Lost alone.
func (l *Leash) Awaits() {
	if l == nil {
		return
	}
	for _, o := range l.of {
		o.awaited.Store(true)
	}
}

// A leashedContext is a context that keeps a leash.
type leashedContext struct {
	context.Context
	leash *Leash
}

type leashKey struct{}

// Value returns the value for key, or the leash.
func (c *leashedContext) Value(key any) any {
	if key == (leashKey{}) {
		return c.leash
	}
	return c.Context.Value(key)
}

// Context returns ctx with l, always the same. ctx is that of what l is the leash of.
func (l *Leash) Context(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.outer, _ = ctx.Value(leashKey{}).(*Leash)
		l.ctx = &leashedContext{ctx, l}
	}
	return l.ctx
}

// WithoutLeash returns the context of a Hold or a Permit without its leash.
func WithoutLeash(ctx context.Context) context.Context {
	if c, ok := ctx.(*leashedContext); ok {
		return c.Context
	}
	return ctx
}

// leashFrom returns the leash of h in ctx, or nil.
func leashFrom(ctx context.Context, h Held) *Leash {
	l, _ := ctx.Value(leashKey{}).(*Leash)
	for l != nil && l.held != h {
		l = l.outer
	}
	return l
}

// A leashed is a Held with a leash.
type leashed struct {
	Held
	leash *Leash
}

func (h leashed) Context() context.Context { return h.leash.Context(h.Held.Context()) }

func (h leashed) Unlock(ctx context.Context) error {
	defer h.leash.Keep()
	return h.Held.Unlock(ctx)
}

func (h leashed) Lost() <-chan struct{} {
	h.leash.Awaits()
	return h.Held.Lost()
}

// withLeash returns h with a leash if it has origins that are watched.
func withLeash(h Held) Held {
	l := NewLeash(h.Origins()...)
	if l == nil {
		return h
	}
	l.held = h
	return leashed{h, l}
}
