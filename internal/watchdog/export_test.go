package watchdog

import "fmt"

// MaxInFlight is maxInFlight.
const MaxInFlight = maxInFlight

// Check returns what is wrong inside w, or nil: the heap is in order, every
// item knows its place, and the loop means to look at the first item in time.
func Check(w *Watchdog) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.items {
		it := p.item
		if p.due != it.due.mono {
			return fmt.Errorf("item %d is in the heap with another due", i)
		}
		if it.index != i+1 {
			return fmt.Errorf("item %d of %d thinks it is at %d", i, len(w.items), it.index-1)
		}
		if up := (i - 1) / arity; i > 0 && p.due < w.items[up].due {
			return fmt.Errorf("item %d is due before its parent", i)
		}
	}
	if len(w.items) > 0 && !w.closed && w.items[0].due < w.armed.mono && len(w.wake) == 0 {
		return fmt.Errorf("the loop sleeps %v too long", w.armed.mono-w.items[0].due)
	}
	return nil
}
