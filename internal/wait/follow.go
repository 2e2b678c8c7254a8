package wait

import (
	"context"
	"time"
)

// Follow puts the caller at the end of the line for key, in the place p, if
// somebody stands there already, and counts it as waiting; it returns false
// otherwise. The caller goes on with Await, and then with Until, which takes over
// the place. ctx, and the end of a wait that is bounded, end it before that.
func (ls *Lines) Follow(ctx context.Context, key string, c Claim, p *Place, bounded bool) bool {
	done := ctx.Done()
	ls.mu.Lock()
	l := ls.lines[key]
	if l == nil || ls.ended {
		ls.mu.Unlock()
		return false
	}
	var formed *crew
	if !bounded {
		formed = l.bed(done, p)
	}
	l.append(c, p)
	p.follows = true
	ls.mu.Unlock()
	p.begun = true
	ls.waiting.Add(1)
	if formed != nil {
		ls.watch(ctx, l, formed)
	}
	return true
}

// Sleep is the part of Await that needs little stack, if there is one: whoever waits
// in it keeps the smallest stack, which asking Redis would make grow, and so would a
// select. It is inlined.
func (p *Place) Sleep() {
	if p.sleeps {
		p.wake.Wait()
	}
}

// Await waits until the caller, who has followed others, has its turn, or a channel
// has something to say, or the lines have ended. It returns a Policy to be filled in,
// with what was heard.
func (p *Place) Await(done <-chan struct{}, over <-chan time.Time) *Policy {
	if p.sleeps {
		p.Sleep()
		p.crew.leave()
		return &Policy{Heard: Heard{word: p.roused}}
	}
	select {
	case t := <-p.turn:
		return &Policy{Heard: Heard{hasTurn, t}}
	case <-done:
		return &Policy{Heard: Heard{word: isDone}}
	case <-over:
		return &Policy{Heard: Heard{word: isOver}}
	}
}

// Heard is what one who has followed others has heard in Await.
type Heard struct {
	word word
	turn turn // zero where it is in the channel yet
}

// A word is why one who has followed others has woken.
type word uint8

const (
	nothing word = iota
	hasTurn
	isDone // its context
	isOver // its bounded wait
	hasEnd // the lines have ended
)
