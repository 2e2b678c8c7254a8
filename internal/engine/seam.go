package engine

import "context"

// The seam gives the packages of this module access to the inside of a public
// type without showing it in that type's documentation. It consists of
// interfaces with an unexported method, and of structs with that method that
// are embedded under an unexported name. It is the one clever thing in the
// module.

// Host is satisfied only by types that embed Seam: the root's Client.
type Host interface {
	engine() *Engine
	mapped(name string) string
}

// Seam gives the type that embeds it its engine.
type Seam struct {
	e      *Engine
	prefix string // of the keys that names become
}

// NewSeam returns a Seam for e.
func NewSeam(e *Engine) Seam { return Seam{e, e.cfg.KeyPrefix} }

func (s Seam) engine() *Engine        { return s.e }
func (s Seam) mapped(n string) string { return s.prefix + n }
func (s *Seam) set(t Seam)            { *s = t }

// Of returns the engine under h.
func Of(h Host) *Engine { return h.engine() }

// Mapped returns the main key of an object: the key prefix of h followed by the name,
// as with Redisson's NameMapper.
func Mapped(h Host, name string) string { return h.mapped(name) }

// Unprefixed makes target, a new Client, one with the engine of h and without its key
// prefix. The names of its objects are their keys.
func Unprefixed(target interface{ set(s Seam) }, h Host) { target.set(Seam{e: h.engine()}) }

// HoldSeam gives the type that embeds it, the root's Hold, its Held.
type HoldSeam struct{ h Held }

// Bindable is satisfied only by pointers to types that embed HoldSeam.
type Bindable interface{ bind(Held) }

func (s *HoldSeam) bind(h Held) { s.h = h }

// held returns the Held behind a Hold, or nil if the Hold has none.
func (s *HoldSeam) held() Held { return s.h }

// Bind sets the Held behind target, a new Hold of what h has acquired. Where forgotten
// holds are looked for, it is found when target and its contexts are garbage.
func Bind(target Bindable, h Held) { target.bind(withLeash(h)) }

// BindFrom sets the Held behind target, another Hold for the innermost hold of ctx. It
// returns false if ctx has none.
func BindFrom(ctx context.Context, target Bindable) bool {
	h := HoldFrom(ctx)
	if h == nil {
		return false
	}
	if l := leashFrom(ctx, h); l != nil {
		h = leashed{h, l}
	}
	target.bind(h)
	return true
}

// HeldOf returns the Held behind a Hold.
func HeldOf(s interface{ held() Held }) Held { return s.held() }

// HoldOf returns the engine's Hold behind a Hold, or nil if it has another one.
func HoldOf(s interface{ held() Held }) *Hold {
	h := s.held()
	if l, ok := h.(leashed); ok {
		h = l.Held
	}
	hold, _ := h.(*Hold)
	return hold
}

// HolderSeam gives the type that embeds it, the root's Holder, its number.
// Types that embed it are comparable.
type HolderSeam struct{ n uint64 }

// NewHolderSeam returns a HolderSeam for the holder number n.
func NewHolderSeam(n uint64) HolderSeam { return HolderSeam{n} }

func (s HolderSeam) holderNumber() uint64 { return s.n }

// NumberOf returns the number of a holder.
func NumberOf(h interface{ holderNumber() uint64 }) uint64 { return h.holderNumber() }
