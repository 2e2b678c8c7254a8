// Package runner runs a command under a lock: on the terminal, with the signals
// that are meant for the command, and no longer than the lock lasts.
package runner

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The exit code of a command that a signal has ended, less the signal, and the
// exit code if nothing is known.
const (
	signalled = 128
	failed    = 1
)

// A Lock is the lock under which a command runs.
type Lock interface {
	Lost() <-chan struct{}
	Remaining() time.Duration
}

// A Command is the command to run.
type Command struct {
	Path      string
	Argv, Env []string
	Name      string        // of the lock, for messages
	AtMost    time.Duration // it is stopped after that; 0 for never
	KillAfter time.Duration // time between TERM and KILL
	Warn      func(format string, args ...any)
}

// A Why is the reason for the end of a command.
type Why int

// The reasons.
const (
	Itself  Why = iota
	AtMost      // its time was over
	Lost        // the lock was lost
	TooLate     // the lock was lost before it was started
)

// An End is how a command has ended.
type End struct {
	Why    Why
	Code   int            // exit code of the command itself
	Signal syscall.Signal // the signal that has ended the command itself; 0 for none
	Asked  os.Signal      // the last signal to the command that asks it to end; nil for none
}

// Run runs a command and returns when all processes of its group have ended.
// signals come from CatchSignals. An error means that the command could not be
// started.
func (c *Command) Run(lock Lock, signals chan os.Signal) (End, error) {
	tty := openTerminal()
	defer tty.close()
	if lock.Remaining() <= 0 { // the process was suspended meanwhile
		return End{Why: TooLate}, nil
	}
	child, err := startChild(c.Path, c.Argv, c.Env, tty, signals)
	if err != nil {
		return End{}, err
	}
	s := &supervisor{command: c, lock: lock, child: child, tty: tty, signals: signals}
	s.watch()
	tty.takeBack()
	return s.end, nil
}

// IgnoreSignals ignores the signals of CatchSignals, for good: what is left to do is
// clean-up.
func IgnoreSignals() { signal.Ignore(ignoredAtEnd...) }

// A childEvent is an event of the child.
type childEvent struct {
	kind childEventKind
	sig  syscall.Signal // the signal that stopped or ended it
	code int            // exit code
}

type childEventKind int

const (
	childStopped childEventKind = iota // by a signal such as that of Ctrl-Z
	childEnded                         // the child itself; others of its group may live
	childGone                          // the child and all of its group
)

// A supervisor watches a child that runs under a lock.
type supervisor struct {
	command *Command
	lock    Lock
	child   *child
	tty     *terminal
	signals chan os.Signal

	ended bool
	end   End // its reason is why we have stopped it; Itself if we have not

	kill   *time.Timer // when to send KILL; nil before TERM
	remark *time.Timer // when to report what we are waiting for
	giveUp *time.Timer // when to stop waiting for processes that KILL does not end
}

// after returns the channel of a timer that may be nil.
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
				s.ended, s.end.Code, s.end.Signal = true, ev.code, ev.sig
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
			if s.end.Why == Itself {
				s.command.Warn("%s has ended and left others of its group behind; %q is held until they end", s.command.Argv[0], s.command.Name)
			}
		case <-after(s.kill):
			s.child.kill()
			s.giveUp = time.NewTimer(time.Second)
		case <-after(s.giveUp):
			if s.ended {
				return // the rest of the group is dead or out of reach
			}
			// The command survives KILL and may still be at work, so the lock
			// stays.
		}
	}
}

// stop ends the child for the reason why. A loss outweighs any other reason.
func (s *supervisor) stop(why Why) {
	if s.end.Why != Lost {
		s.end.Why = why
	}
	s.terminate(syscall.SIGTERM)
}

// terminate sends a signal to the group, and KILL later.
func (s *supervisor) terminate(sig os.Signal) {
	if s.kill == nil {
		s.kill = time.NewTimer(s.command.KillAfter)
	}
	s.child.signal(sig)
}

// forward sends a signal on to the child, which may do with it what it likes.
// But once the child has ended, the rest of its group has only limited time.
func (s *supervisor) forward(sig os.Signal) {
	if EndsWait(sig) {
		s.end.Asked = sig
	}
	if s.ended && EndsWait(sig) {
		s.terminate(sig)
		return
	}
	s.child.signal(sig)
}

// stopped handles a child that was stopped. If there is a terminal, the user or
// the child may want to stop the job. Then we stop too, because the shell waits
// for us and not for the child.
func (s *supervisor) stopped(sig syscall.Signal) {
	if s.tty == nil {
		return // whoever stopped it can resume it
	}
	if s.end.Why != Itself {
		s.child.resume()
		return
	}
	wants, had := asksForTerminal(sig), s.tty.has()
	if !wants || s.tty.foreground() != s.tty.ours {
		s.tty.suspend()
	}
	// Nothing was renewed while we were stopped. A child without the lock must
	// not go on.
	if s.lock.Remaining() <= 0 {
		s.stop(Lost)
		return
	}
	if wants || had {
		s.tty.handOver()
	}
	s.child.resume()
}
