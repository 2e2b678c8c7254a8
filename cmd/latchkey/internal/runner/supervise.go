// Package runner runs a command under a lock: on the terminal, with the signals
// that are meant for it, and no longer than the lock lasts.
package runner

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// What a command ends with that a signal has ended, less the signal; and one of
// which nothing is known.
const (
	signalled = 128
	failed    = 1
)

// A Lock is what a command runs under.
type Lock interface {
	Lost() <-chan struct{}
	Remaining() time.Duration
}

// A Command is what to run.
type Command struct {
	Path      string
	Argv, Env []string
	Name      string        // of the lock, for messages
	AtMost    time.Duration // after which it is stopped; 0 for never
	KillAfter time.Duration // what comes between TERM and KILL
	Warn      func(format string, args ...any)
}

// Why is why a command has ended.
type Why int

// What ends a command.
const (
	Itself  Why = iota
	AtMost      // its time was over
	Lost        // the lock was lost
	TooLate     // the lock was lost before it was started
)

// Run runs a command, and returns when all of its group have ended: why, and with
// which exit code the command itself. signals come from CatchSignals; from the end
// on they are ignored. An error says that the command could not be started.
func (c *Command) Run(lock Lock, signals chan os.Signal) (Why, int, error) {
	tty := openTerminal()
	defer tty.close()
	if lock.Remaining() <= 0 { // we have slept through it
		return TooLate, 0, nil
	}
	child, err := startChild(c.Path, c.Argv, c.Env, tty, signals)
	if err != nil {
		return Itself, 0, err
	}
	s := &supervisor{command: c, lock: lock, child: child, tty: tty, signals: signals}
	s.watch()
	signal.Ignore(ignoredAtEnd...) // nothing can be done but what is being done
	tty.takeBack()
	return s.why, s.code, nil
}

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
	command *Command
	lock    Lock
	child   *child
	tty     *terminal
	signals chan os.Signal

	ended bool
	code  int
	why   Why // we have stopped it, Itself so far

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
	if s.command.AtMost > 0 {
		timer := time.NewTimer(s.command.AtMost)
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
			s.stop(Lost)
		case <-limit:
			limit = nil
			if s.ended {
				s.terminate(syscall.SIGTERM) // CMD itself was in time
			} else {
				s.stop(AtMost)
			}
		case <-after(s.remark):
			if s.why == Itself {
				s.command.Warn("%s has ended and left others of its group behind; %q is held until they end", s.command.Argv[0], s.command.Name)
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
func (s *supervisor) stop(why Why) {
	if s.why != Lost {
		s.why = why
	}
	s.terminate(syscall.SIGTERM)
}

// terminate sends a signal to the group, and later KILL.
func (s *supervisor) terminate(sig os.Signal) {
	if s.kill == nil {
		s.kill = time.NewTimer(s.command.KillAfter)
	}
	s.child.signal(sig)
}

// forward passes a signal on. What the child does with it is its own affair;
// but when it has ended, the rest of its group is not given for ever.
func (s *supervisor) forward(sig os.Signal) {
	if s.ended && EndsWait(sig) {
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
	if s.why != Itself {
		s.child.resume()
		return
	}
	wants, had := asksForTerminal(sig), s.tty.has()
	if !wants || s.tty.foreground() != s.tty.ours {
		s.tty.suspend()
	}
	// Nothing was renewed meanwhile. A child without the lock must not go on.
	if s.lock.Remaining() <= 0 {
		s.stop(Lost)
		return
	}
	if wants || had {
		s.tty.handOver()
	}
	s.child.resume()
}
