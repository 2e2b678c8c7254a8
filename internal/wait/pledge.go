package wait

import "time"

// A Pledge is the intention to give the thing to the next one who waits for it,
// by one of the same client who gives it back.
type Pledge struct {
	Claim Claim
	lines *Lines
	to    pledgee
}

// A pledgee is one who waits, at the head of a line or the first of a party.
type pledgee interface {
	drop()  // with Lines.mu
	doubt() // with Lines.mu
	keep(ls *Lines, after time.Duration, know func()) bool
}

// Drop ends a pledge of which nothing has come.
func (pl Pledge) Drop() {
	pl.lines.mu.Lock()
	pl.to.drop()
	pl.lines.mu.Unlock()
}

// Doubt ends a pledge of which nobody knows what has come: the waiter asks.
func (pl Pledge) Doubt() {
	pl.lines.mu.Lock()
	pl.to.doubt()
	pl.lines.mu.Unlock()
}

// Keep ends a pledge that was kept: the thing is the waiter's, who need not ask
// any more; whoever is next need not either before after is over. know is called
// to tell the claim, unless its wait has failed meanwhile: then Keep returns
// false, and the claim, which knows of the pledge, takes care of what it may
// have been given.
func (pl Pledge) Keep(after time.Duration, know func()) bool {
	return pl.to.keep(pl.lines, after, know)
}
