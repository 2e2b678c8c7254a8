package wait

import "time"

// A Reservation is the intention to give the thing to the next one who waits for it,
// by one of the same client who gives it back.
type Reservation struct {
	Claim Claim
	lines *Lines
	to    reservable
}

// A reservable is one who waits, at the head of a line or the first of a fair group.
type reservable interface {
	cancel()  // with Lines.mu
	unknown() // with Lines.mu
	commit(ls *Lines, after time.Duration, know func()) bool
}

// Cancel ends a reservation of which nothing has come.
func (r Reservation) Cancel() {
	r.lines.mu.Lock()
	r.to.cancel()
	r.lines.mu.Unlock()
}

// Unknown ends a reservation of which nobody knows what has come: the waiter asks.
func (r Reservation) Unknown() {
	r.lines.mu.Lock()
	r.to.unknown()
	r.lines.mu.Unlock()
}

// Commit ends a reservation that was kept: the thing is the waiter's, who need not ask
// any more; whoever is next need not either before after is over. know is called
// to tell the claim, unless its wait has failed meanwhile: then Commit returns
// false, and the claim, which knows of the reservation, takes care of what it may
// have been given.
func (r Reservation) Commit(after time.Duration, know func()) bool {
	return r.to.commit(r.lines, after, know)
}
