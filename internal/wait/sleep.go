package wait

import (
	"context"
	"time"
)

// A sleeper is what every waiter has, in whatever order waiters are served: it sleeps,
// and counts as waiting from its first sleep on.
type sleeper struct {
	lines  *Lines
	policy *Policy
	begun  *bool // it counts
	timer  *time.Timer
	polled time.Duration // the last back-off
}

// An event ends a sleep.
type event int

const (
	told      event = iota // by another caller of this client
	hinted                 // by a hint
	ownHinted              // by a hint for this waiter alone
	elapsed                // by the timer
)

// signals bring the events that may end a sleep; a nil channel brings none.
type signals struct {
	told  <-chan turn
	hints <-chan struct{}
	own   <-chan struct{}
	timer <-chan time.Time
}

// sleep returns at the first event, with what the waiter was told, or at the end of the
// wait, with its error. Every wait ends here.
func (s *sleeper) sleep(ctx context.Context, on signals) (event, turn, error) {
	select {
	case t := <-on.told:
		return told, t, nil
	case <-on.hints:
		return hinted, turn{}, nil
	case <-on.own:
		return ownHinted, turn{}, nil
	case <-on.timer:
		return elapsed, turn{}, nil
	case <-ctx.Done():
		return 0, turn{}, ctx.Err()
	case <-s.policy.Over:
		return 0, turn{}, ErrOver
	case <-s.policy.Interrupt:
		return 0, turn{}, ErrInterrupted
	case <-s.policy.Closed:
		return 0, turn{}, s.policy.ClosedErr
	}
}

// after returns a channel that receives after d.
func (s *sleeper) after(d time.Duration) <-chan time.Time {
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	return s.timer.C
}

// poll returns how long to sleep where no hint will come.
func (s *sleeper) poll() (d time.Duration) {
	d, s.polled = s.policy.Poll.next(s.polled)
	return d
}

// begin counts the waiter as waiting, once.
func (s *sleeper) begin() {
	if *s.begun {
		return
	}
	*s.begun = true
	s.lines.waiting.Add(1)
	if s.policy.Events != nil {
		s.policy.Events.Slept()
	}
}

// stop ends the sleeps.
func (s *sleeper) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
	if *s.begun {
		s.lines.waiting.Add(-1)
	}
}
