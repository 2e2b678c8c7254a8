package watchdog

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A walk meets every item in the order of due, and leaves the heap as it was.
func TestOrderedWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var w ordered // used again and again
	for n := range 200 {
		var h dueHeap
		var items []*Item
		due := func() Instant { return Instant{mono: time.Duration(rnd.IntN(n + 1))} }
		for range n {
			it := &Item{due: due()}
			h.push(it)
			items = append(items, it)
		}
		for range n {
			it := items[rnd.IntN(len(items))]
			switch rnd.IntN(4) {
			case 0:
				h.remove(it)
				items = slices.DeleteFunc(items, func(x *Item) bool { return x == it })
			case 1:
				it.due = due()
				h.fix(it)
			case 2:
				for _, x := range items {
					x.due = due()
				}
				h.sort()
			}
			if len(items) == 0 {
				break
			}
		}
		before := slices.Clone(h)
		var seen []*Item
		w.begin(h)
		for it := w.item(); it != nil; it = w.item() {
			seen = append(seen, it)
		}
		w.end()
		require.True(t, slices.Equal(before, h), "the walk moves nothing")
		require.Len(t, seen, len(items))
		all := map[*Item]bool{}
		for _, it := range seen {
			all[it] = true
		}
		for _, it := range items {
			if !all[it] {
				t.Fatal("an item was not seen")
			}
		}
		require.True(t, slices.IsSortedFunc(seen, func(a, b *Item) int { return cmp.Compare(a.due.mono, b.due.mono) }))
		for i, p := range h {
			if p.item.index != i+1 || p.item.due.mono != p.due || h[max(i-1, 0)/arity].due > p.due {
				t.Fatalf("place %d of %d: %+v", i, n, p)
			}
		}
	}
}
