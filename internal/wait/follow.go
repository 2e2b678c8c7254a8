package wait

import (
	"context"
	"time"
)

// Follow puts the caller at the end of the line for key, in the place p, and
// counts it as waiting. It returns false, and does nothing, if nobody stands in
// that line. After true, the caller calls Await and then Until, which takes
// over the place.
func (ls *Lines) Follow(key string, c Claim, p *Place) bool {
	ls.mu.Lock()
	l := ls.lines[key]
	if l == nil || ls.ended {
		ls.mu.Unlock()
		return false
	}
	l.append(c, p)
	p.follows = true
	ls.mu.Unlock()
	p.begun = true
	ls.waiting.Add(1)
	return true
}

// Await waits until it is the caller's turn after Follow, its wait ends by ctx
// or over, or the lines end. It returns a Policy that records which, to be
// completed for Until.
func (p *Place) Await(ctx context.Context, over <-chan time.Time) *Policy {
	select {
	case t := <-p.turn:
		return &Policy{Heard: Heard{hasTurn, t}}
	case <-ctx.Done():
		return &Policy{Heard: Heard{word: isDone}}
	case <-over:
		return &Policy{Heard: Heard{word: isOver}}
	}
}

// Heard is the result of Await.
type Heard struct {
	word word
	turn turn
}

// A word is why Await returned.
type word uint8

const (
	nothing word = iota
	hasTurn
	isDone // its context ended
	isOver // its bounded wait ended
)
