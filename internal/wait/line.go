package wait

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lines are the lines of one client, one for each thing that is waited for.
type Lines struct {
	waiting atomic.Int64 // callers in Until that are not being served at once

	// mu guards the fields below and every line and party in them.
	mu      sync.Mutex
	lines   map[string]*line
	parties map[string]*party // see queue.go
}

// NewLines returns an empty set of lines.
func NewLines() *Lines {
	return &Lines{lines: make(map[string]*line), parties: make(map[string]*party)}
}

// Waiting returns how many callers wait, in all lines.
func (ls *Lines) Waiting() int { return int(ls.waiting.Load()) }

// A line is the queue for one thing. It exists while somebody stands in it.
type line struct {
	key        string
	head, tail *place
	joined     uint64    // how many have ever
	quiet      time.Time // until then the head does not follow hints; see HoldBack
	asked      uint64    // of them had when the last question that was refused was asked
	hints      Hints     // opened by the first head that has to sleep; nil before
}

// A place is one caller's place in a line.
type place struct {
	line       *line
	claim      Claim
	number     uint64 // grows from the head to the tail
	prev, next *place
	turn       chan turn // capacity 1, made only for those who have to wait

	// guarded by Lines.mu
	gone    bool // no longer in the line
	asks    bool // it is asking, or is about to
	pledged bool // see Pledge
}

// A turn is what the head of a line is told when it becomes the head.
type turn struct {
	// asleep is set when somebody of this process has just been granted the
	// thing: there is no use in asking before a hint, or before after is over.
	asleep bool
	after  time.Duration
	// granted is set when the head has been given the thing for this place too;
	// then the place has left the line.
	granted bool
}

// join puts the caller at the end of the line for key. The caller is the head
// of the line if the place has no turn to wait for.
func (ls *Lines) join(key string, c Claim) *place {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		l = &line{key: key}
		ls.lines[key] = l
	}
	l.joined++
	p := &place{line: l, claim: c, number: l.joined, prev: l.tail}
	if l.tail == nil {
		l.head, p.asks = p, true
	} else {
		p.turn = make(chan turn, 1)
		l.tail.next = p
	}
	l.tail = p
	return p
}

// leave takes p out of its line. If p was the head, the next one becomes it and
// is told t. It returns false, and does nothing, when the place has left
// already.
func (ls *Lines) leave(p *place, t turn) bool {
	ls.mu.Lock()
	if p.gone {
		ls.mu.Unlock()
		return false
	}
	hints := ls.remove(p, t)
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
	return true
}

// remove takes p out of its line. If p was the head, the next one becomes it and
// is told t. It returns the hints that nobody needs any more, to be closed. The
// caller has Lines.mu.
func (ls *Lines) remove(p *place, t turn) (unused Hints) {
	l := p.line
	wasHead := l.head == p
	l.takeOut(p)
	switch {
	case l.head == nil:
		delete(ls.lines, l.key)
		return l.hints
	case wasHead:
		l.head.asks = !t.asleep
		l.head.turn <- t // never blocks: a place becomes the head once
	}
	return nil
}

// stir notes that p, the head, is about to ask. It returns false when p has been
// granted the thing instead.
func (ls *Lines) stir(p *place) bool {
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
func (ls *Lines) heldBack(p *place) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if p.line.quiet.IsZero() {
		return 0
	}
	return time.Until(p.line.quiet)
}

// rest notes that p, the head, has asked and waits.
func (ls *Lines) rest(p *place) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p.asks = false
	if p.turn == nil {
		p.turn = make(chan turn, 1)
	}
}

// PledgeHead returns a pledge for the head of the line for key; false when there
// is nobody, or it is asking, or somebody else has pledged already.
func (ls *Lines) PledgeHead(key string) (Pledge, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil || l.head.asks || l.head.pledged {
		return Pledge{}, false
	}
	l.head.pledged = true
	return Pledge{l.head.claim, ls, l.head}, true
}

func (ls *Lines) hasPledge(p *place) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return p.pledged
}

func (p *place) drop() { p.pledged = false }

func (p *place) doubt() { p.tell(turn{}) }

// keep has p leave its line; the next one need not ask before after is over.
func (p *place) keep(ls *Lines, after time.Duration, know func()) bool {
	ls.mu.Lock()
	if p.gone {
		ls.mu.Unlock()
		return false
	}
	hints := ls.remove(p, turn{asleep: true, after: after})
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
	know()
	p.tell(turn{granted: true})
	return true
}

// tell gives p, a head that does not ask, a turn in place of one that it has not
// taken yet.
func (p *place) tell(t turn) {
	select {
	case <-p.turn:
	default:
	}
	p.turn <- t
}

// takeOut takes p from the list of places. The caller has Lines.mu.
func (l *line) takeOut(p *place) {
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
}

// last returns the number of the last place in the line of p, the head.
func (ls *Lines) last(p *place) uint64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return p.line.tail.number
}

// admit grants all places behind p, the head, up to a number.
func (ls *Lines) admit(p *place, upTo uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for q := p.next; q != nil && q.number <= upTo; q = p.next {
		p.line.takeOut(q)
		q.turn <- turn{granted: true} // never blocks: it was not the head
	}
}

// enlist has those who stand behind p, the head, ask with it: as many as are
// next to each other and can, up to limit.
func (ls *Lines) enlist(p *place, limit int) (places []*place, members []Member) {
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
func (ls *Lines) dismiss(places []*place, served int, settled bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, q := range places {
		switch {
		case q.gone:
		case i < served:
			q.claim.(Member).Served()
			q.line.takeOut(q)
			q.turn <- turn{granted: true} // never blocks: it was not the head
		case settled:
			q.claim.(Member).Refused()
		}
	}
}

// listen returns the hints of the line of p, its head, opening them for the first
// one who sleeps; nil when p has left the line. open must not block.
func (ls *Lines) listen(p *place, open func() Hints) Hints {
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
