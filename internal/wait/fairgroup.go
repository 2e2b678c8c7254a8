package wait

import "time"

// keepFirst is how many of the first in a group are kept each time. The others
// have their turns: keepTurns of them each time, or as many as make up all in
// keepParts times.
const keepFirst, keepTurns, keepParts = 50, 50, 6

// A fairGroup are those of one client who wait in one queue in Redis, in the order
// of that queue. The first of them is the only one who can be next, and speaks
// for all: it listens, asks now and then, and is told whose turn it is. The
// others sleep until they are told.
type fairGroup struct {
	first, last *fairWaiter
	members     map[string]*fairWaiter // by ID; those with the same ID through same
	n           int
	hints       Hints       // nil until somebody has been refused
	heard       bool        // the first hint has come
	deaf        bool        // none will
	kept        time.Time   // when the group was kept last
	ends        time.Time   // when to ask since a lease may be over; zero: unknown
	lastKept    *fairWaiter // the last one who was kept in turn
}

// A fairWaiter is one waiter in a fairGroup.
type fairWaiter struct {
	group      *fairGroup
	key, id    string
	claim      Claim
	prev, next *fairWaiter
	same       *fairWaiter
	ticket     int64         // grows along the queue; 0 while it has no place there
	turn       bool          // it has been told to ask
	missed     bool          // by one who asked because nothing had come
	reserved   bool          // somebody is about to give it the thing
	given      chan struct{} // somebody has; closed when the claim knows
	gone       bool          // no longer in the group
	wake       chan struct{} // capacity 1: something has changed
}

// joinGroup puts the caller at the end of the group for key.
func (ls *Lines) joinGroup(key, id string, c Claim) *fairWaiter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.groups[key]
	if p == nil {
		p = &fairGroup{members: make(map[string]*fairWaiter), kept: time.Now()}
		ls.groups[key] = p
	}
	fw := &fairWaiter{group: p, key: key, id: id, claim: c, same: p.members[id], wake: make(chan struct{}, 1)}
	p.insert(fw, p.last)
	p.members[id] = fw
	p.n++
	return fw
}

// insert puts fw behind after, or first when that is nil.
func (p *fairGroup) insert(fw, after *fairWaiter) {
	fw.prev, fw.next = after, p.first
	if after != nil {
		fw.next = after.next
		after.next = fw
	} else {
		p.first = fw
	}
	if fw.next != nil {
		fw.next.prev = fw
	} else {
		p.last = fw
	}
}

func (p *fairGroup) remove(fw *fairWaiter) {
	if p.lastKept == fw {
		p.lastKept = fw.prev
	}
	if fw.prev != nil {
		fw.prev.next = fw.next
	} else {
		p.first = fw.next
	}
	if fw.next != nil {
		fw.next.prev = fw.prev
	} else {
		p.last = fw.prev
	}
}

// place puts fw where its ticket says.
func (p *fairGroup) place(fw *fairWaiter, ticket int64) {
	p.remove(fw)
	fw.ticket = ticket
	after := p.last // those without a ticket are the last ones, and few
	for after != nil && (after.ticket == 0 || after.ticket > ticket) {
		after = after.prev
	}
	p.insert(fw, after)
}

// leaveGroup takes fw out of its group, and reports whether somebody has given it the
// thing, or may yet.
func (ls *Lines) leaveGroup(fw *fairWaiter) (given chan struct{}, reserved bool) {
	ls.mu.Lock()
	p := fw.group
	fw.gone = true
	given, reserved = fw.given, fw.reserved
	spoke := p.first == fw
	p.remove(fw)
	p.n--
	if other := p.members[fw.id]; other != fw {
		for other.same != fw {
			other = other.same
		}
		other.same = fw.same
	} else if fw.same != nil {
		p.members[fw.id] = fw.same
	} else {
		delete(p.members, fw.id)
	}
	var hints Hints
	switch {
	case p.n == 0:
		delete(ls.groups, fw.key)
		hints = p.hints
	case spoke:
		p.first.nudge()
	}
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
	return given, reserved
}

// nudge makes the waiter look at what has changed.
func (fw *fairWaiter) nudge() {
	select {
	case fw.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// Tell tells a waiter that it is its turn. It returns false when there is no such
// waiter here.
func (ls *Lines) Tell(key, id string) bool { return ls.tell(key, id, false) }

func (ls *Lines) tell(key, id string, missed bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.groups[key]
	if p == nil || p.members[id] == nil {
		return false
	}
	for fw := p.members[id]; fw != nil; fw = fw.same {
		fw.turn, fw.missed = true, missed
		fw.nudge()
	}
	return true
}

// InGroup reports whether somebody waits under that ID.
func (ls *Lines) InGroup(key, id string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.groups[key]
	return p != nil && p.members[id] != nil
}

// ReserveFirst returns a reservation for the first of the group for key; false when there is
// nobody, or somebody else is about to.
func (ls *Lines) ReserveFirst(key string) (Reservation, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.groups[key]
	if p == nil || p.first.ticket == 0 || p.first.reserved {
		return Reservation{}, false
	}
	p.first.reserved = true
	return Reservation{p.first.claim, ls, p.first}, true
}

// ReserveFor is Reservation for the one who waits under that ID, wherever it is in the
// group.
func (ls *Lines) ReserveFor(key, id string) (Reservation, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.groups[key]
	if p == nil {
		return Reservation{}, false
	}
	fw := p.members[id]
	if fw == nil || fw.same != nil || fw.reserved {
		return Reservation{}, false
	}
	fw.reserved = true
	return Reservation{fw.claim, ls, fw}, true
}

func (fw *fairWaiter) cancel() { fw.reserved = false }

func (fw *fairWaiter) unknown() {
	fw.turn = true
	fw.nudge()
}

// commit leaves fw in its group, from which it takes itself out. The others need not ask
// before after is over, and then at once.
func (fw *fairWaiter) commit(ls *Lines, after time.Duration, know func()) bool {
	ls.mu.Lock()
	if fw.gone {
		ls.mu.Unlock()
		return false
	}
	given := make(chan struct{})
	fw.given = given
	fw.group.held(after)
	fw.nudge()
	ls.mu.Unlock()
	know()
	close(given)
	return true
}

// held notes that somebody has what the group waits for, for so long; 0: unknown. Answers
// may come in another order than they were given in, so the soonest end that has been
// heard of counts until it is over: a question too many then.
func (p *fairGroup) held(left time.Duration) {
	if left <= 0 {
		return
	}
	now := time.Now()
	if ends := now.Add(left + slack); !p.ends.After(now) || ends.Before(p.ends) {
		p.ends = ends
	}
}

// due returns those who are to be kept now.
func (p *fairGroup) due() []string {
	ids := make([]string, 0, min(p.n, keepFirst+keepTurns))
	add := func(fw *fairWaiter) {
		if fw.ticket != 0 {
			ids = append(ids, fw.id)
		}
	}
	fw := p.first
	for range min(p.n, keepFirst) {
		add(fw)
		fw = fw.next
	}
	if fw == nil {
		return ids
	}
	from := fw // the others are those from here on
	if p.lastKept != nil && p.lastKept.next != nil {
		fw = p.lastKept.next
	}
	for range min(max(keepTurns, p.n/keepParts), p.n-keepFirst) {
		add(fw)
		p.lastKept = fw
		if fw = fw.next; fw == nil {
			fw = from
		}
	}
	return ids
}
