package wait

import "time"

// Whoever comes to the head of a line just after somebody of it was granted the thing
// has nothing to do but to listen for hints. Where the thing goes from hand to hand he is given
// it a moment later, and to wake him for both would be to wake twice as many as there are
// hand-overs. So he sleeps on for a while, in Await; a hint wakes him, by way of Rouse.

// dozing is for how long.
const dozing = 20 * time.Millisecond

// A doze is that of the head of a line.
type doze struct {
	on    bool
	turn  turn // which the head is told at the end of it
	since time.Time

	alarm *time.Timer // ends it; nil before the first
	armed bool
}

// A Rouser is Hints that call Rouse before each hint, if Rouses says so, but for those that they
// give when they have begun to flow.
type Rouser interface {
	Hints
	Rouses() bool
}

// sleepsOn lets the new head of l doze, if t tells him to sleep. It returns false
// where he has to be told at once. The caller has Lines.mu.
func (ls *Lines) sleepsOn(l *line, t turn) bool {
	r, ok := l.hints.(Rouser)
	if !ok || !r.Rouses() || !r.Live() || !t.asleep || !l.head.follows || t.after > 0 && t.after < 2*dozing {
		return false
	}
	if l.head.turn == nil { // whoever is given the thing looks there
		l.head.turn = make(chan turn, 1)
	}
	d := &l.doze
	d.on, d.turn, d.since = true, t, time.Now()
	switch {
	case d.armed: // for one before him, who did not need all of it
	case d.alarm == nil:
		d.armed, d.alarm = true, time.AfterFunc(dozing, func() { ls.wake(l) })
	default:
		d.armed = true
		d.alarm.Reset(dozing)
	}
	return true
}

// wake ends the doze of the head of l if it has lasted long enough.
func (ls *Lines) wake(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	d := &l.doze
	d.armed = false
	if left := dozing - time.Since(d.since); d.on && left > 0 {
		d.armed = true
		d.alarm.Reset(left)
		return
	}
	l.rouse()
}

// rouse ends the doze of the head of l. The caller has Lines.mu.
func (l *line) rouse() {
	d := &l.doze
	if !d.on {
		return
	}
	d.on = false
	if d.turn.after > 0 { // it was that long when he came to the head
		d.turn.after -= time.Since(d.since)
	}
	l.head.tell(d.turn)
}

// Rouse has the head of the line for key listen for the hint that comes next.
func (ls *Lines) Rouse(key string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[key]; l != nil {
		l.rouse()
	}
}
