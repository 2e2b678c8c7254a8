//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package runner

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal is the controlling terminal of our session. One process group is
// in its foreground: that group may read from it and receives Ctrl-C. A nil
// terminal means that there is none.
type terminal struct {
	file   *os.File
	ours   int // our process group
	theirs int // the child's
}

// openTerminal returns the controlling terminal, or nil if there is none.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: f, ours: syscall.Getpgrp()}
	if t.foreground() < 0 {
		t.close()
		return nil
	}
	return t
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// foreground returns the foreground process group, or a negative number if
// there is none.
func (t *terminal) foreground() int {
	pgrp, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

// give puts a group into the foreground. A background process that does so is
// stopped together with its group, unless it ignores SIGTTOU. The signal is
// ignored only during the call, because a child inherits what is ignored.
func (t *terminal) give(pgrp int) {
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, pgrp)
	signal.Reset(syscall.SIGTTOU)
}

// eager reports whether the child should have the terminal from the start.
func (t *terminal) eager() bool {
	return t != nil && t.foreground() == t.ours && term.IsTerminal(0) && term.IsTerminal(1)
}

// asksForTerminal reports whether sig stops a background process that uses the
// terminal.
func asksForTerminal(sig syscall.Signal) bool {
	return sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
}

// has reports whether the child's group has the terminal.
func (t *terminal) has() bool { return t.foreground() == t.theirs }

// suspend stops our own process group, as the shell expects after Ctrl-Z, and
// returns when we are resumed. If nobody can resume the group (it is orphaned),
// the kernel does not stop it, and suspend returns soon.
func (t *terminal) suspend() {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	t.takeBack()
	// Not TSTP: it is caught, and Go cannot restore its default action.
	_ = unix.Kill(0, unix.SIGTTIN)
	select {
	case <-resumed:
	case <-time.After(100 * time.Millisecond):
	}
}

// handOver gives the terminal to the child if we have it: we may have been
// resumed in the background.
func (t *terminal) handOver() {
	if t.foreground() == t.ours {
		t.give(t.theirs)
	}
}

// takeBack puts us into the foreground again if the child's group is there.
func (t *terminal) takeBack() {
	if t != nil && t.has() {
		t.give(t.ours)
	}
}
