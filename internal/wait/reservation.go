package wait

import "time"

// A Reservation reserves a thing for its next waiter while another caller of
// the same client gives it back.
type Reservation struct {
	Claim Claim
	lines *Lines
	to    reservable
}

// A reservable is a waiter: the head of a line, or the first of a fair group.
type reservable interface {
	cancel()  // called with Lines.mu held
	unknown() // called with Lines.mu held
	commit(ls *Lines, after time.Duration, know func()) bool
}

// Cancel ends a reservation without a grant.
func (r Reservation) Cancel() {
	r.lines.mu.Lock()
	r.to.cancel()
	r.lines.mu.Unlock()
}

// Unknown ends a reservation whose result is unknown: the waiter asks.
func (r Reservation) Unknown() {
	r.lines.mu.Lock()
	r.to.unknown()
	r.lines.mu.Unlock()
}

// Commit ends a reservation with a grant: the waiter has the thing and need not
// ask. The next waiter need not ask before after is over. know is called to
// tell the claim. If its wait has failed meanwhile, Commit returns false
// without calling know, and the claim, which knows of the reservation, takes
// care of what it may have been granted.
func (r Reservation) Commit(after time.Duration, know func()) bool {
	return r.to.commit(r.lines, after, know)
}
