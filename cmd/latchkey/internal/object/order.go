package object

import (
	"cmp"
	"slices"
)

// An Order is in which objects are shown.
type Order int

// The orders: those that most wait for come first, and what is held longest.
const (
	ByWaiting Order = iota
	byHeld
	byName
	orders
)

// String says by what.
func (o Order) String() string { return [...]string{"waiters", "time held", "name"}[o] }

// Next returns the order after this one.
func (o Order) Next() Order { return (o + 1) % orders }

// Sort sorts objects; what is equal keeps its order, which is by name.
func (o Order) Sort(objects []*Object) {
	slices.SortStableFunc(objects, func(a, b *Object) int {
		switch o {
		case ByWaiting:
			return cmp.Compare(b.Waiting(), a.Waiting())
		case byHeld:
			return cmp.Compare(b.heldFor(), a.heldFor())
		}
		return 0
	})
}
