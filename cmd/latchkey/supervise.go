package main

import (
	"os"
	"syscall"
	"time"
)

// A childEvent is something that happened to the child.
type childEvent struct {
	kind childEventKind
	sig  syscall.Signal // that stopped it
	code int            // with which it ended
}

type childEventKind int

const (
	childStopped childEventKind = iota // by a signal such as that of Ctrl-Z
	childEnded                         // itself; others of its group may live
	childGone                          // with all of its group
)

// A supervisor looks after a child that runs under a lock.
type supervisor struct {
	job     *job
	lock    grip
	child   *child
	tty     *terminal
	signals chan os.Signal

	ended bool
	code  int
	why   int // the exit code of what made us stop it, 0 so far

	kill   *time.Timer // when TERM has been given its time; nil before
	remark *time.Timer // when to say what we are waiting for
	giveUp *time.Timer // when to wait no longer for what KILL does not end
}

// after is the channel of a timer that may be nil.
func after(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

// watch returns when the child and its group have ended.
func (s *supervisor) watch() {
	lost := s.lock.Lost()
	var limit <-chan time.Time
	if s.job.holdMax > 0 {
		timer := time.NewTimer(s.job.holdMax)
		defer timer.Stop()
		limit = timer.C
	}
	for {
		select {
		case ev := <-s.child.events:
			switch ev.kind {
			case childStopped:
				s.stopped(ev.sig)
			case childEnded:
				s.ended, s.code = true, ev.code
				s.remark = time.NewTimer(time.Second)
			case childGone:
				return
			}
		case sig := <-s.signals:
			s.forward(sig)
		case <-lost:
			lost = nil
			s.stop(exitLost)
		case <-limit:
			limit = nil
			if s.ended {
				s.terminate(syscall.SIGTERM) // CMD itself was in time
			} else {
				s.stop(exitTimeout)
			}
		case <-after(s.remark):
			if s.why == 0 {
				warn("%s has ended and left others of its group behind; %q is held until they end", s.job.argv[0], s.job.name)
			}
		case <-after(s.kill):
			s.child.kill()
			s.giveUp = time.NewTimer(time.Second)
		case <-after(s.giveUp):
			if s.ended {
				return // what is left of the group is dead, or beyond our reach
			}
			// Not to be killed, so perhaps still at work: the lock stays.
		}
	}
}

// stop ends the child because of what why says. A loss counts for more than
// anything else.
func (s *supervisor) stop(why int) {
	if s.why != exitLost {
		s.why = why
	}
	s.terminate(syscall.SIGTERM)
}

// terminate sends a signal to the group, and later KILL.
func (s *supervisor) terminate(sig os.Signal) {
	if s.kill == nil {
		s.kill = time.NewTimer(s.job.killAfter)
	}
	s.child.signal(sig)
}

// forward passes a signal on. What the child does with it is its own affair;
// but when it has ended, the rest of its group is not given for ever.
func (s *supervisor) forward(sig os.Signal) {
	if s.ended && endsWait(sig) {
		s.terminate(sig)
		return
	}
	s.child.signal(sig)
}

// stopped deals with a child that was stopped. Where there is a terminal, it may
// want that, or the user wants it to stop: then we stop too, since the shell
// waits for us, and not for the child.
func (s *supervisor) stopped(sig syscall.Signal) {
	if s.tty == nil {
		return // whoever has stopped it can resume it
	}
	if s.why != 0 {
		s.child.resume()
		return
	}
	wants, had := asksForTerminal(sig), s.tty.has()
	if !wants || s.tty.foreground() != s.tty.ours {
		s.tty.suspend()
	}
	// Nothing was renewed meanwhile. A child without the lock must not go on.
	if s.lock.Remaining() <= 0 {
		s.stop(exitLost)
		return
	}
	if wants || had {
		s.tty.handOver()
	}
	s.child.resume()
}

// result is how the child ended, or why it was stopped.
func (s *supervisor) result() error {
	switch s.why {
	case exitLost:
		return exitf(exitLost, "lost %s; %s was stopped", s.job.what(), s.job.argv[0])
	case exitTimeout:
		return exitf(exitTimeout, "%s was stopped: it had held %q for %v", s.job.argv[0], s.job.name, s.job.holdMax)
	}
	if s.code == 0 {
		return nil
	}
	return &exit{code: s.code}
}
