package object

import (
	"cmp"
	"slices"
)

// An Order is the order in which objects are listed.
type Order int

// The orders. Objects with the most waiters, and objects held longest, come
// first.
const (
	ByWaiting Order = iota
	ByHeld
	ByName
	orders
)

// String returns what the objects are ordered by.
func (o Order) String() string { return [...]string{"waiters", "time held", "name"}[o] }

// Next returns the order after this one.
func (o Order) Next() Order { return (o + 1) % orders }

// Sort sorts objects. Equal objects keep their order, which is by name.
func (o Order) Sort(objects []*Object) {
	slices.SortStableFunc(objects, func(a, b *Object) int {
		switch o {
		case ByWaiting:
			return cmp.Compare(b.Waiting(), a.Waiting())
		case ByHeld:
			return cmp.Compare(b.HeldFor(), a.HeldFor())
		}
		return 0
	})
}
