package watchdog

import "time"

// arity is how many children a place of a heap has: with four it is half as deep
// as with two, and they are side by side.
const arity = 4

// A dueHeap is a heap of items by due. It keeps the time beside each item, since
// a hundred thousand items are in no cache.
type dueHeap []place

// A place is one of a heap: an item and its due.
type place struct {
	due  time.Duration // by the monotonic clock
	item *Item
}

// set puts p in the place i.
func (h dueHeap) set(i int, p place) {
	h[i] = p
	p.item.index = i + 1
}

// push adds an item.
func (h *dueHeap) push(it *Item) {
	*h = append(*h, place{item: it})
	it.index = len(*h)
	h.fix(it)
}

// remove takes an item out.
func (h *dueHeap) remove(it *Item) {
	i, last := it.index-1, len(*h)-1
	moved := (*h)[last].item
	(*h)[last] = place{}
	*h = (*h)[:last]
	it.index = 0
	if i < last {
		moved.index = i + 1
		h.fix(moved)
	}
}

// fix puts an item where its due belongs.
func (h dueHeap) fix(it *Item) {
	p := place{it.due.mono, it}
	i := it.index - 1
	if !h.down(i, p) {
		h.up(i, p)
	}
}

// up puts p in the place i, or in one above it.
func (h dueHeap) up(i int, p place) {
	for i > 0 {
		above := (i - 1) / arity
		if p.due >= h[above].due {
			break
		}
		h.set(i, h[above])
		i = above
	}
	h.set(i, p)
}

// down puts p below the place i, and returns whether it belongs there.
func (h dueHeap) down(i int, p place) bool {
	start := i
	for {
		first := arity*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for j := first + 1; j < min(first+arity, len(h)); j++ {
			if h[j].due < h[least].due {
				least = j
			}
		}
		if p.due <= h[least].due {
			break
		}
		h.set(i, h[least])
		i = least
	}
	if i == start {
		return false
	}
	h.set(i, p)
	return true
}

// sort makes a heap of h again when the due of many items has changed.
func (h dueHeap) sort() {
	for i := range h {
		h[i].due = h[i].item.due.mono
	}
	for i := (len(h) - 2) / arity; i >= 0 && i < len(h); i-- {
		h.down(i, h[i])
	}
}

// An ordered walks through a heap in the order of due, and changes nothing.
type ordered struct {
	heap dueHeap
	next []step // a heap of the places whose parents have been seen
}

// A step is a place of the heap that is walked through.
type step struct {
	due time.Duration
	at  int
}

// begin goes back to the beginning of h.
func (o *ordered) begin(h dueHeap) {
	o.heap, o.next = h, o.next[:0]
	o.add(0)
}

// end keeps nothing but the room.
func (o *ordered) end() { o.heap = nil }

// add puts a place among those to come.
func (o *ordered) add(at int) {
	if at >= len(o.heap) {
		return
	}
	s := step{o.heap[at].due, at}
	o.next = append(o.next, s)
	i := len(o.next) - 1
	for ; i > 0 && s.due < o.next[(i-1)/2].due; i = (i - 1) / 2 {
		o.next[i] = o.next[(i-1)/2]
	}
	o.next[i] = s
}

// item returns the next item, nil behind the last.
func (o *ordered) item() *Item {
	if len(o.next) == 0 {
		return nil
	}
	at, last := o.next[0].at, len(o.next)-1
	s := o.next[last]
	o.next = o.next[:last]
	if last > 0 {
		i := 0
		for {
			child := 2*i + 1
			if child+1 < last && o.next[child+1].due < o.next[child].due {
				child++
			}
			if child >= last || s.due <= o.next[child].due {
				break
			}
			o.next[i] = o.next[child]
			i = child
		}
		o.next[i] = s
	}
	for j := range arity {
		o.add(arity*at + 1 + j)
	}
	return o.heap[at].item
}
