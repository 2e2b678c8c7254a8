package watchdog

import "time"

// arity is the number of children of a node of a heap. With four children the
// heap is half as deep as with two, and siblings are adjacent in memory.
const arity = 4

// A dueHeap is a heap of items by due. It keeps the due beside the pointer to
// the item, because a hundred thousand items do not fit into a cache.
type dueHeap []place

// A place is an element of a heap: an item and its due.
type place struct {
	due  time.Duration // by the monotonic clock
	item *Item
}

// set puts p at index i.
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

// remove removes an item.
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

// fix moves an item to where its due belongs.
func (h dueHeap) fix(it *Item) {
	p := place{it.due.mono, it}
	i := it.index - 1
	if !h.down(i, p) {
		h.up(i, p)
	}
}

// up puts p at index i or at an ancestor of it.
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

// down puts p below index i and returns true, or returns false if p does not
// belong there.
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

// sort restores the heap after the due of many items has changed.
func (h dueHeap) sort() {
	for i := range h {
		h[i].due = h[i].item.due.mono
	}
	for i := (len(h) - 2) / arity; i >= 0 && i < len(h); i-- {
		h.down(i, h[i])
	}
}

// An ordered iterates over a heap in the order of due, without changing it.
type ordered struct {
	heap dueHeap
	next []step // a heap of the elements whose parents have been visited
}

// A step is an element of the heap that an ordered iterates over.
type step struct {
	due time.Duration
	at  int
}

// begin restarts the iteration at the beginning of h.
func (o *ordered) begin(h dueHeap) {
	o.heap, o.next = h, o.next[:0]
	o.add(0)
}

// end releases the heap but keeps the memory for the next iteration.
func (o *ordered) end() { o.heap = nil }

// add adds the element at an index of the heap to next.
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

// item returns the next item, or nil after the last.
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
