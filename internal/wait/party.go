package wait

import "time"

// keepFirst is how many of the first in a party are kept each time. The others
// have their turns: keepTurns of them each time, or as many as make up all in
// keepParts times.
const keepFirst, keepTurns, keepParts = 50, 50, 6

// A party are those of one client who wait in one queue in Redis, in the order
// of that queue. The first of them is the only one who can be next, and speaks
// for all: it listens, asks now and then, and is told whose turn it is. The
// others sleep until they are told.
type party struct {
	first, last *seat
	seats       map[string]*seat // by ID; those with the same ID through twin
	n           int
	hints       Hints     // nil until somebody has been refused
	heard       bool      // the first hint has come
	deaf        bool      // none will
	kept        time.Time // when the party was kept last
	ends        time.Time // when to ask since a lease may be over; zero: unknown
	rolled      *seat     // the last one who was kept in turn
}

// A seat is one waiter's part in a party.
type seat struct {
	party      *party
	key, id    string
	claim      Claim
	prev, next *seat
	twin       *seat
	ticket     int64         // grows along the queue; 0 while it has no place there
	turn       bool          // it has been told to ask
	missed     bool          // by one who asked because nothing had come
	pledged    bool          // somebody is about to give it the thing
	given      chan struct{} // somebody has; closed when the claim knows
	gone       bool          // no longer in the party
	wake       chan struct{} // capacity 1: something has changed
}

// sit puts the caller at the end of the party for key.
func (ls *Lines) sit(key, id string, c Claim) *seat {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.parties[key]
	if p == nil {
		p = &party{seats: make(map[string]*seat), kept: time.Now()}
		ls.parties[key] = p
	}
	st := &seat{party: p, key: key, id: id, claim: c, twin: p.seats[id], wake: make(chan struct{}, 1)}
	p.insert(st, p.last)
	p.seats[id] = st
	p.n++
	return st
}

// insert puts st behind after, or first when that is nil.
func (p *party) insert(st, after *seat) {
	st.prev, st.next = after, p.first
	if after != nil {
		st.next = after.next
		after.next = st
	} else {
		p.first = st
	}
	if st.next != nil {
		st.next.prev = st
	} else {
		p.last = st
	}
}

func (p *party) remove(st *seat) {
	if p.rolled == st {
		p.rolled = st.prev
	}
	if st.prev != nil {
		st.prev.next = st.next
	} else {
		p.first = st.next
	}
	if st.next != nil {
		st.next.prev = st.prev
	} else {
		p.last = st.prev
	}
}

// place puts st where its ticket says.
func (p *party) place(st *seat, ticket int64) {
	p.remove(st)
	st.ticket = ticket
	after := p.last // those without a ticket are the last ones, and few
	for after != nil && (after.ticket == 0 || after.ticket > ticket) {
		after = after.prev
	}
	p.insert(st, after)
}

// rise takes st out of its party, and reports whether somebody has given it the
// thing, or may yet.
func (ls *Lines) rise(st *seat) (given chan struct{}, pledged bool) {
	ls.mu.Lock()
	p := st.party
	st.gone = true
	given, pledged = st.given, st.pledged
	spoke := p.first == st
	p.remove(st)
	p.n--
	if other := p.seats[st.id]; other != st {
		for other.twin != st {
			other = other.twin
		}
		other.twin = st.twin
	} else if st.twin != nil {
		p.seats[st.id] = st.twin
	} else {
		delete(p.seats, st.id)
	}
	var hints Hints
	switch {
	case p.n == 0:
		delete(ls.parties, st.key)
		hints = p.hints
	case spoke:
		p.first.nudge()
	}
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
	return given, pledged
}

// nudge makes the waiter look at what has changed.
func (st *seat) nudge() {
	select {
	case st.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// Tell tells a waiter that it is its turn. It returns false when there is no such
// waiter here.
func (ls *Lines) Tell(key, id string) bool { return ls.tell(key, id, false) }

func (ls *Lines) tell(key, id string, missed bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.parties[key]
	if p == nil || p.seats[id] == nil {
		return false
	}
	for st := p.seats[id]; st != nil; st = st.twin {
		st.turn, st.missed = true, missed
		st.nudge()
	}
	return true
}

// Sits reports whether somebody waits under that ID.
func (ls *Lines) Sits(key, id string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.parties[key]
	return p != nil && p.seats[id] != nil
}

// Pledge returns a pledge for the first of the party for key; false when there is
// nobody, or somebody else is about to.
func (ls *Lines) Pledge(key string) (Pledge, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.parties[key]
	if p == nil || p.first.ticket == 0 || p.first.pledged {
		return Pledge{}, false
	}
	p.first.pledged = true
	return Pledge{p.first.claim, ls, p.first}, true
}

// PledgeTo is Pledge for the one who waits under that ID, wherever it is in the
// party.
func (ls *Lines) PledgeTo(key, id string) (Pledge, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.parties[key]
	if p == nil {
		return Pledge{}, false
	}
	st := p.seats[id]
	if st == nil || st.twin != nil || st.pledged {
		return Pledge{}, false
	}
	st.pledged = true
	return Pledge{st.claim, ls, st}, true
}

func (st *seat) drop() { st.pledged = false }

func (st *seat) doubt() {
	st.turn = true
	st.nudge()
}

// keep leaves st in its party, from which it takes itself out. The others need not ask
// before after is over, and then at once.
func (st *seat) keep(ls *Lines, after time.Duration, know func()) bool {
	ls.mu.Lock()
	if st.gone {
		ls.mu.Unlock()
		return false
	}
	given := make(chan struct{})
	st.given = given
	st.party.held(after)
	st.nudge()
	ls.mu.Unlock()
	know()
	close(given)
	return true
}

// held notes that somebody has what the party waits for, for so long; 0: unknown. Answers
// may come in another order than they were given in, so the soonest end that has been
// heard of counts until it is over: a question too many then.
func (p *party) held(left time.Duration) {
	if left <= 0 {
		return
	}
	now := time.Now()
	if ends := now.Add(left + slack); !p.ends.After(now) || ends.Before(p.ends) {
		p.ends = ends
	}
}

// roll returns those who are to be kept now.
func (p *party) roll() []string {
	ids := make([]string, 0, min(p.n, keepFirst+keepTurns))
	add := func(st *seat) {
		if st.ticket != 0 {
			ids = append(ids, st.id)
		}
	}
	st := p.first
	for range min(p.n, keepFirst) {
		add(st)
		st = st.next
	}
	if st == nil {
		return ids
	}
	from := st // the others are those from here on
	if p.rolled != nil && p.rolled.next != nil {
		st = p.rolled.next
	}
	for range min(max(keepTurns, p.n/keepParts), p.n-keepFirst) {
		add(st)
		p.rolled = st
		if st = st.next; st == nil {
			st = from
		}
	}
	return ids
}
