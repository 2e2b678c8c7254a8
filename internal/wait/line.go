package wait

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lines are the lines of one client, one for each thing that is waited for.
type Lines struct {
	waiting atomic.Int64 // callers in Until that are not being served at once

	// mu guards the fields below and every line in lines.
	mu    sync.Mutex
	lines map[string]*line
}

// NewLines returns an empty set of lines.
func NewLines() *Lines { return &Lines{lines: make(map[string]*line)} }

// Waiting returns how many callers wait, in all lines.
func (ls *Lines) Waiting() int { return int(ls.waiting.Load()) }

// A line is the queue for one thing. It exists while somebody stands in it.
type line struct {
	key        string
	head, tail *place
	hints      Hints // opened by the first head that has to sleep; nil before
}

// A place is one caller's place in a line.
type place struct {
	line       *line
	prev, next *place
	turn       chan turn // capacity 1, made only for those who find others before them
}

// A turn is what the head of a line is told when it becomes the head.
type turn struct {
	// asleep is set when somebody of this process has just been granted the
	// thing: there is no use in asking before a hint, or before after is over.
	asleep bool
	after  time.Duration
}

// join puts the caller at the end of the line for key. The caller is the head
// of the line if the place has no turn to wait for.
func (ls *Lines) join(key string) *place {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		l = &line{key: key}
		ls.lines[key] = l
	}
	p := &place{line: l, prev: l.tail}
	if l.tail == nil {
		l.head = p
	} else {
		p.turn = make(chan turn, 1)
		l.tail.next = p
	}
	l.tail = p
	return p
}

// leave takes p out of its line. If p was the head, the next one becomes it and
// is told t.
func (ls *Lines) leave(p *place, t turn) {
	ls.mu.Lock()
	l := p.line
	wasHead := l.head == p
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
	var hints Hints
	switch {
	case l.head == nil:
		delete(ls.lines, l.key)
		hints = l.hints
	case wasHead:
		l.head.turn <- t // never blocks: a place becomes the head once
	}
	ls.mu.Unlock()
	if hints != nil {
		hints.Close()
	}
}

// listen returns the hints of the line, opening them for its first sleeper.
// Only the head of the line calls it.
func (ls *Lines) listen(l *line, open func() Hints) Hints {
	if l.hints == nil {
		h := open()
		ls.mu.Lock()
		l.hints = h
		ls.mu.Unlock()
	}
	return l.hints
}
