package wait

import "time"

// keepFirst is how many of the first waiters of a group are kept alive each
// time. The others take turns: keepTurns of them each time, or as many as make
// up all of them in keepParts times.
const keepFirst, keepTurns, keepParts = 50, 50, 6

// A fairGroup are the waiters of one client in one queue in Redis, in the order
// of that queue. Only the first of them can be the next of the queue. It acts
// for all: it listens, asks now and then, and is notified whose turn it is. The
// others sleep until they are told.
type fairGroup struct {
	first, last *fairWaiter
	members     map[string]*fairWaiter // by ID; waiters with the same ID are linked by same
	n           int
	hints       Hints       // nil until a waiter has been refused
	heard       bool        // the first hint has come
	deaf        bool        // no hint will come
	kept        time.Time   // when the group was last kept alive
	ends        time.Time   // when to ask because a lease may be over; zero: unknown
	lastKept    *fairWaiter // the last waiter that was kept alive in its turn
}

// A fairWaiter is one waiter in a fairGroup.
type fairWaiter struct {
	group      *fairGroup
	key, id    string
	claim      Claim
	prev, next *fairWaiter
	same       *fairWaiter
	ticket     int64         // increases along the queue; 0 without a place there
	turn       bool          // it has been told to ask
	missed     bool          // it was told by a waiter that asked because no hint had come
	reserved   bool          // another caller is about to grant it the thing
	given      chan struct{} // another caller has granted it the thing; closed when the claim knows
	gone       bool          // no longer in the group
	wake       chan turn     // capacity 1: something has changed
	begun      bool          // counted as waiting
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
	fw := &fairWaiter{group: p, key: key, id: id, claim: c, same: p.members[id], wake: make(chan turn, 1)}
	p.insert(fw, p.last)
	p.members[id] = fw
	p.n++
	return fw
}

// insert puts fw behind after, or first if after is nil.
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

// place moves fw to where its ticket belongs.
func (p *fairGroup) place(fw *fairWaiter, ticket int64) {
	p.remove(fw)
	fw.ticket = ticket
	after := p.last // waiters without a ticket are the last, and few
	for after != nil && (after.ticket == 0 || after.ticket > ticket) {
		after = after.prev
	}
	p.insert(fw, after)
}

// leaveGroup removes fw from its group. It reports whether another caller has
// granted it the thing, or may still do so.
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

// nudge makes the waiter check what has changed.
func (fw *fairWaiter) nudge() {
	select {
	case fw.wake <- turn{}:
	default: // it is going to check
	}
}

// Tell tells a waiter that it is its turn. It returns false if there is no such
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

// InGroup reports whether a waiter has that ID.
func (ls *Lines) InGroup(key, id string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.groups[key]
	return p != nil && p.members[id] != nil
}

// ReserveFirst returns a reservation for the first waiter of the group for key.
// It returns false if there is none or it is reserved.
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

// ReserveFor returns a reservation for the waiter with that ID, wherever it is
// in the group.
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

// commit leaves fw in its group, which fw leaves by itself. The others need not
// ask before after is over, and then ask at once.
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

// held notes that the group's thing is held for that long; 0: unknown. Replies
// may arrive in another order than they were sent, so the soonest known end
// counts until it is over. That costs at most one request too many.
func (p *fairGroup) held(left time.Duration) {
	if left <= 0 {
		return
	}
	now := time.Now()
	if ends := now.Add(left + slack); !p.ends.After(now) || ends.Before(p.ends) {
		p.ends = ends
	}
}

// due returns the waiters to be kept alive now.
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
	from := fw // the others start here
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
