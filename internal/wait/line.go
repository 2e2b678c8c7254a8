package wait

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lines are the lines of one client, one for each thing that is waited for.
type Lines struct {
	waiting atomic.Int64 // callers in Until that are not being served at once

	// mu guards the fields below and every line and group in them.
	mu     sync.Mutex
	lines  map[string]*line
	ended  bool
	groups map[string]*fairGroup // see queue.go
	spare  *line                 // one that nobody stands in, to be used again
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
	joined     uint64    // how many have ever
	quiet      time.Time // until then the head does not follow hints; see HoldBack
	nudged     bool      // the head asks once more before it sleeps; see Nudge
	asked      uint64    // of them had when the last question that was refused was asked
	hints      Hints     // opened by the first head that has to sleep; nil before
}

// A Place is one caller's place in a line. Its zero value is of one who stands in
// none yet; it serves for one wait.
type Place struct {
	line       *line
	claim      Claim
	number     uint64 // grows from the head to the tail
	prev, next *Place
	turn       chan turn // capacity 1, made only for those who have to wait

	// guarded by Lines.mu
	gone     bool // no longer in the line
	left     bool // gone, with nothing
	asks     bool // it is asking, or is about to
	reserved bool // see Reservation

	begun   bool // counted as waiting
	follows bool // by Follow
}

// A turn is what the head of a line is told when it becomes the head.
type turn struct {
	// asleep is set when somebody of this process has just been granted the
	// thing: there is no use in asking before a hint, or before after is over.
	after  time.Duration
	asleep bool
	// granted is set when the head has been given the thing for this place too;
	// then the place has left the line.
	granted bool
	// ended is set when there is no use in waiting any more; see End.
	ended bool
	// disbanded is set when the place is no longer in the line, and has nothing.
	disbanded bool
}

// join puts the caller at the end of the line for key. The caller is the head
// of the line if the place has no turn to wait for.
func (ls *Lines) join(key string, c Claim, p *Place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		if l = ls.spare; l == nil {
			l = new(line)
		}
		ls.spare = nil
		l.key = key
		ls.lines[key] = l
	}
	l.append(c, p)
}

// End ends the wait of all who follow others, with Policy.ClosedErr, and from now on
// nobody follows. Policy.Closed is closed before, so that those who go on by
// themselves know; one may do without it.
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

// Leave ends the wait of a caller who has followed others, and will not go on to
// Until.
func (ls *Lines) Leave(p *Place) {
	ls.leave(p, turn{})
	ls.waiting.Add(-1)
}

// append puts a claim at the end of l, in the place p. The caller has Lines.mu.
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

// leave takes p out of its line. If p was the head, the next one becomes it and
// is told t. It returns false, and does nothing, when the place has left
// already because it was granted the thing.
func (ls *Lines) leave(p *Place, t turn) bool {
	ls.mu.Lock()
	if p.gone {
		ls.mu.Unlock()
		return p.left
	}
	l := p.line
	hints := ls.remove(p, t)
	if l.joined == 1 && l.head == nil { // nobody else has ever known it
		*l = line{}
		ls.spare = l
	}
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
	return true
}

// remove takes p out of its line. If p was the head, the next one becomes it and
// is told t. It returns the hints that nobody needs any more, to be closed. The
// caller has Lines.mu.
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
		if s, ok := l.head.claim.(Successor); ok && l.head.number <= l.asked { // by p, whose caller this is
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

// stir notes that p, the head, is about to ask. It returns false when p has been
// granted the thing instead.
func (ls *Lines) stir(p *Place) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p.asks = true
	return !p.gone
}

// HoldBack has those who stand in the line for key follow no hint for so long, so
// that others have their turn.
func (ls *Lines) HoldBack(key string, d time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[key]; l != nil {
		l.quiet = time.Now().Add(d)
	}
}

// heldBack returns for how long p, the head, follows no hint.
func (ls *Lines) heldBack(p *Place) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.line.quiet.IsZero() {
		return 0
	}
	return time.Until(p.line.quiet)
}

// rest notes that p, the head, has asked and waits.
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

// Nudge has the head of the line for key ask, and once more if it is asking. It
// returns false when there is nobody.
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

// Head returns the claim of the head of the line for key; nil when there is nobody.
func (ls *Lines) Head(key string) Claim {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[key]; l != nil {
		return l.head.claim
	}
	return nil
}

// Listens reports whether those in the line for key would hear of what they are
// given.
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

// ReserveHead returns a reservation for the head of the line for key; false when there
// is nobody, or it is asking, or somebody else has reserved already.
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

// commit has p leave its line; the next one need not ask before after is over.
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

// tell gives p, which does not ask, a turn in place of one that it has not taken
// yet. The caller has Lines.mu, unless p, the head until then, has left the line.
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

// takeOut takes p from the list of places. The caller has Lines.mu.
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

// admit grants all places behind p, the head, up to a number.
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

// disband sends all who stand behind p, the head, out of the line.
func (ls *Lines) disband(p *Place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for q := p.next; q != nil; q = p.next {
		p.line.takeOut(q)
		q.left = true
		q.tell(turn{disbanded: true})
	}
}

// enlist has those who stand behind p, the head, ask with it: as many as are
// next to each other and can, up to limit.
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

// dismiss tells those who were enlisted what became of it. The first served of
// them were granted; settled says that the others were not. Who has left the
// line meanwhile has gone his own way, and knows that he was enlisted.
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

// listen returns the hints of the line of p, its head, opening them for the first
// one who sleeps; nil when p has left the line. open must not block.
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
