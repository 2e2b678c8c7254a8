package engine

// The seam lets the packages of this module reach what a public type is made
// of, without that showing in the type's documentation: an interface with an
// unexported method, and structs that have it and are embedded under an
// unexported name. It is the one clever thing in the module.

// Host is satisfied only by types that embed Seam: the root's Client.
type Host interface{ engine() *Engine }

// Seam gives the type that embeds it its engine.
type Seam struct{ e *Engine }

// NewSeam returns a Seam for e.
func NewSeam(e *Engine) Seam { return Seam{e} }

func (s Seam) engine() *Engine { return s.e }

// Of returns the engine under h.
func Of(h Host) *Engine { return h.engine() }

// HoldSeam gives the type that embeds it, the root's Hold, what it stands for.
type HoldSeam struct{ h Held }

// Bindable is satisfied only by pointers to types that embed HoldSeam.
type Bindable interface{ bind(Held) }

func (s *HoldSeam) bind(h Held) { s.h = h }

// Held returns what the Hold stands for; nil for a Hold that nobody made.
func (s *HoldSeam) held() Held { return s.h }

// Bind makes target, a Hold, stand for h.
func Bind(target Bindable, h Held) { target.bind(h) }

// HeldOf returns what a Hold stands for.
func HeldOf(s interface{ held() Held }) Held { return s.held() }

// HolderSeam gives the type that embeds it, the root's Holder, its number.
// Types that embed it are comparable.
type HolderSeam struct{ n uint64 }

// NewHolderSeam returns a HolderSeam for the holder number n.
func NewHolderSeam(n uint64) HolderSeam { return HolderSeam{n} }

func (s HolderSeam) holderNumber() uint64 { return s.n }

// NumberOf returns the number of a holder.
func NumberOf(h interface{ holderNumber() uint64 }) uint64 { return h.holderNumber() }
