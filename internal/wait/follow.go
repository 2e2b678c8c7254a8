package wait

import (
	"context"
	"time"
)

// Follow puts the caller at the end of the line for key, in the place p, if
// somebody stands there already, and counts it as waiting; it returns false
// otherwise. The caller goes on with Await, and then with Until, which takes over
// the place.
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

// Await waits until the caller, who has followed others, has its turn, or ctx or over
// ends its wait, or the lines have ended. It returns a Policy to be filled in, with what
// was heard.
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

// Heard is what one who has followed others has heard in Await.
type Heard struct {
	word word
	turn turn
}

// A word is why one who has followed others has woken.
type word uint8

const (
	nothing word = iota
	hasTurn
	isDone // its context
	isOver // its bounded wait
)
