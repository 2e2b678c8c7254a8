package wait

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lines are the lines of one client, one for each thing that is waited for.
type Lines struct {
	waiting atomic.Int64 // callers that were not served at once

	// mu guards the fields below and every line and group in them.
	mu     sync.Mutex
	lines  map[string]*line
	ended  bool
	groups map[string]*fairGroup // see queue.go
}

// NewLines returns an empty set of lines.
func NewLines() *Lines {
	return &Lines{lines: make(map[string]*line), groups: make(map[string]*fairGroup)}
}

// Waiting returns how many callers wait, in all lines.
func (ls *Lines) Waiting() int { return int(ls.waiting.Load()) }

// A line is the queue for one thing. It exists while somebody stands in it.
type line struct {
	key        string
	head, tail *Place
	joined     uint64    // number of places there have ever been
	quiet      time.Time // the head follows no hints until then; see HoldBack
	nudged     bool      // the head asks once more before it sleeps; see Nudge
	asked      uint64    // value of joined when the last refused request was sent
	hints      Hints     // opened by the first head that has to sleep; nil before that
}

// A Place is one caller's place in a line. The zero Place is in no line. A
// Place serves for one wait.
type Place struct {
	line       *line
	claim      Claim
	number     uint64 // increases from the head to the tail
	prev, next *Place
	turn       chan turn // capacity 1; made only for callers that have to wait

	// guarded by Lines.mu
	gone     bool // no longer in the line
	left     bool // gone, without having been granted the thing
	asks     bool // it is asking, or about to
	reserved bool // see Reservation

	begun   bool // counted as waiting
	follows bool // joined the line by Follow
}

// A turn is what a place is told when it becomes the head of its line.
type turn struct {
	// asleep is set if another caller of this process has just been granted the
	// thing: asking is useless before a hint, or before after is over.
	after  time.Duration
	asleep bool
	// granted is set if the head has been granted the thing for this place too.
	// The place has then left the line.
	granted bool
	// ended is set if waiting is useless; see End.
	ended bool
	// disbanded is set if the place has left the line without the thing.
	disbanded bool
}

// join puts the caller at the end of the line for key. If the place has no
// channel turn, the caller is the head.
func (ls *Lines) join(key string, c Claim, p *Place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		l = &line{key: key}
		ls.lines[key] = l
	}
	l.append(c, p)
}

// End ends the waits of all places that joined by Follow, with
// Policy.ClosedErr. From now on Follow returns false. Policy.Closed, which
// other waiters watch, is closed before End is called; lines without followers
// do not need End.
func (ls *Lines) End() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ended = true
	for _, l := range ls.lines {
		for p := l.head.next; p != nil; p = p.next {
			if p.follows {
				p.tell(turn{ended: true})
			}
		}
	}
}

// Leave ends the wait of a caller that has called Follow and will not call
// Until.
func (ls *Lines) Leave(p *Place) {
	ls.leave(p, turn{})
	ls.waiting.Add(-1)
}

// append puts a claim at the end of l, in the place p. The caller holds
// Lines.mu.
func (l *line) append(c Claim, p *Place) {
	l.joined++
	p.line, p.claim, p.number, p.prev = l, c, l.joined, l.tail
	if l.tail == nil {
		l.head, p.asks = p, true
	} else {
		p.turn = make(chan turn, 1)
		l.tail.next = p
	}
	l.tail = p
}

// leave removes p from its line. If p was the head, the next place becomes the
// head and is told t. leave returns false, and does nothing, if the place has
// left already because it was granted the thing.
func (ls *Lines) leave(p *Place, t turn) bool {
	ls.mu.Lock()
	if p.gone {
		ls.mu.Unlock()
		return p.left
	}
	hints := ls.remove(p, t)
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
	return true
}

// remove removes p from its line. If p was the head, the next place becomes the
// head and is told t. remove returns the hints that nobody needs any more, for
// the caller to close. The caller holds Lines.mu.
func (ls *Lines) remove(p *Place, t turn) (unused Hints) {
	l := p.line
	wasHead := l.head == p
	l.takeOut(p)
	switch {
	case l.head == nil:
		delete(ls.lines, l.key)
		return l.hints
	case wasHead:
		if h, ok := l.head.claim.(Header); ok {
			h.Heads()
		}
		if s, ok := l.head.claim.(Successor); ok && l.head.number <= l.asked { // l.asked is p's, whose caller this is
			s.Succeeds(p.claim)
		}
		if ls.ended && l.head.follows {
			t = turn{ended: true}
		}
		l.head.asks = !t.asleep
		l.head.tell(t)
	}
	return nil
}

// stir notes that p, the head, is about to ask. It returns false if p has been
// granted the thing instead.
func (ls *Lines) stir(p *Place) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p.asks = true
	return !p.gone
}

// HoldBack makes the line for key follow no hints for d, so that other clients
// have their turn.
func (ls *Lines) HoldBack(key string, d time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[key]; l != nil {
		l.quiet = time.Now().Add(d)
	}
}

// heldBack returns for how long p, the head, follows no hints.
func (ls *Lines) heldBack(p *Place) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.line.quiet.IsZero() {
		return 0
	}
	return time.Until(p.line.quiet)
}

// rest notes that p, the head, has asked and now waits.
func (ls *Lines) rest(p *Place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.gone {
		return // its turn says so; another would take the place of that one
	}
	p.asks = false
	if p.turn == nil {
		p.turn = make(chan turn, 1)
	}
	if p.line.nudged {
		p.line.nudged = false
		p.tell(turn{})
	}
}

// Nudge makes the head of the line for key ask, and once more if it is asking
// now. It returns false if the line is empty.
func (ls *Lines) Nudge(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	switch {
	case l == nil:
		return false
	case l.head.asks:
		l.nudged = true
	default:
		l.head.tell(turn{})
	}
	return true
}

// Head returns the claim of the head of the line for key, or nil if the line is
// empty.
func (ls *Lines) Head(key string) Claim {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[key]; l != nil {
		return l.head.claim
	}
	return nil
}

// Listens reports whether a grant message for the line for key would be
// received.
func (ls *Lines) Listens(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		return false
	}
	h, ok := l.hints.(Giver)
	return ok && h.Given()
}

// ReserveHead returns a reservation for the head of the line for key. It
// returns false if the line is empty, or if the head is asking or reserved.
func (ls *Lines) ReserveHead(key string) (Reservation, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil || l.head.asks || l.head.reserved {
		return Reservation{}, false
	}
	l.head.reserved = true
	return Reservation{l.head.claim, ls, l.head}, true
}

func (ls *Lines) isReserved(p *Place) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return p.reserved
}

func (p *Place) cancel() { p.reserved = false }

func (p *Place) unknown() { p.tell(turn{}) }

// commit makes p leave its line. The next place need not ask before after is
// over.
func (p *Place) commit(ls *Lines, after time.Duration, know func()) bool {
	ls.mu.Lock()
	if p.gone {
		ls.mu.Unlock()
		return false
	}
	hints := ls.remove(p, turn{asleep: true, after: after})
	ls.mu.Unlock()
	know()
	p.tell(turn{granted: true})
	if hints != nil {
		hints.Close()
	}
	return true
}

// tell gives p, which is not asking, a turn, in place of an earlier turn that p
// has not received. The caller holds Lines.mu, unless p was the head and has
// left the line.
func (p *Place) tell(t turn) {
	if p.turn == nil {
		p.turn = make(chan turn, 1)
	}
	select {
	case <-p.turn:
	default:
	}
	p.turn <- t
}

// takeOut removes p from the list of places. The caller holds Lines.mu.
func (l *line) takeOut(p *Place) {
	p.gone = true
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.tail = p.prev
	}
	p.prev, p.next = nil, nil
}

// last returns the number of the last place in the line of p, the head.
func (ls *Lines) last(p *Place) uint64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return p.line.tail.number
}

// admit grants the thing to all places behind p, the head, up to a number.
func (ls *Lines) admit(p *Place, upTo uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for q := p.next; q != nil && q.number <= upTo; q = p.next {
		p.line.takeOut(q)
		if g, ok := q.claim.(Guest); ok {
			g.Admitted(p.claim)
		}
		q.tell(turn{granted: true})
	}
}

// disband removes all places behind p, the head, from the line.
func (ls *Lines) disband(p *Place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for q := p.next; q != nil; q = p.next {
		p.line.takeOut(q)
		q.left = true
		q.tell(turn{disbanded: true})
	}
}

// enlist includes waiters behind p, the head, in its request: consecutive
// Members that agree, up to limit.
func (ls *Lines) enlist(p *Place, limit int) (places []*Place, members []Member) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for q := p.next; q != nil && len(places) < limit; q = q.next {
		m, ok := q.claim.(Member)
		if !ok || !m.Enlist() {
			break
		}
		places, members = append(places, q), append(members, m)
	}
	return places, members
}

// dismiss tells the enlisted places the result. The first served of them were
// granted. settled means that the others were not. A place that has left the
// line meanwhile is not told; its claim knows that it was enlisted.
func (ls *Lines) dismiss(places []*Place, served int, settled bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, q := range places {
		switch {
		case q.gone:
		case i < served:
			q.claim.(Member).Served()
			q.line.takeOut(q)
			q.tell(turn{granted: true})
		case settled:
			q.claim.(Member).Refused()
		}
	}
}

// listen returns the hints of the line of p, its head. It calls open for the
// first head that sleeps; open must not block. It returns nil if p has left the
// line.
func (ls *Lines) listen(p *Place, open func() Hints) Hints {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.gone {
		return nil
	}
	if p.line.hints == nil {
		p.line.hints = open()
	}
	return p.line.hints
}
