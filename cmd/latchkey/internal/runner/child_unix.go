//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package runner

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A child is CMD, in a process group of its own.
type child struct {
	pid    int // of the process and of the group
	events chan childEvent
}

// ShellCommand returns the command that runs text in a shell.
func ShellCommand(text string) []string { return []string{"/bin/sh", "-c", text} }

// passedOn are the signals that are forwarded to the child.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// stopping are signals that are also forwarded while there is a child. Ctrl-Z
// stops first the child and then this process: a child that ran on while nobody
// renewed its lock would soon be without it.
var stopping = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

var ignoredAtEnd = passedOn

// inherited are the signals that the parent wants ignored, as nohup does.
var inherited = sync.OnceValue(ignoredBefore)

// CatchSignals catches the signals that are forwarded to a command, except
// those that the parent wants ignored. The command ignores those too.
func CatchSignals() chan os.Signal {
	ch := make(chan os.Signal, 64)
	catch(ch, passedOn)
	return ch
}

func catch(ch chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		switch n, _ := sig.(syscall.Signal); {
		case signal.Ignored(sig):
		case inherited()&bit(n) != 0:
			signal.Ignore(sig)
		default:
			signal.Notify(ch, sig)
		}
	}
}

// EndsWait reports whether a signal ends a wait for the lock.
func EndsWait(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// startChild starts CMD with our standard files. If both input and output are
// our terminal, the child's group gets the terminal at once. In a pipeline,
// other processes may need the terminal, so the group gets it only when it asks
// for it.
func startChild(path string, argv, env []string, tty *terminal, signals chan<- os.Signal) (*child, error) {
	c := &child{events: make(chan childEvent, 8)}
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: groupAttr()}
	if tty.eager() {
		attr.Sys.Foreground, attr.Sys.Ctty = true, tty.fd()
	}
	catch(signals, stopping)
	// Nobody may be reading our messages while CMD runs. SIGPIPE must not end
	// us, because the rest of the group would run without the lock. (Nobody
	// reads the channel.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	started := make(chan error)
	go func() {
		// Linux kills the child when the thread ends that has started it. This
		// thread is kept until the child has ended.
		runtime.LockOSThread()
		adoptOrphans()
		var err error
		c.pid, err = syscall.ForkExec(path, argv, attr)
		started <- err
		if err == nil {
			c.reap()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if tty != nil {
		tty.theirs = c.pid
	}
	return c, nil
}

// reap collects the child and its orphans until the group is empty.
func (c *child) reap() {
	for ended := false; !ended; {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && pid != c.pid:
		case err != nil: // nothing to wait for, which cannot be
			c.events <- childEvent{kind: childEnded, code: failed}
			ended = true
		case ws.Stopped():
			c.events <- childEvent{kind: childStopped, sig: ws.StopSignal()}
		case ws.Exited():
			c.events <- childEvent{kind: childEnded, code: ws.ExitStatus()}
			ended = true
		case ws.Signaled():
			c.events <- childEvent{kind: childEnded, code: signalled + int(ws.Signal()), sig: ws.Signal()}
			ended = true
		}
	}
	for pause := time.Millisecond; c.alive(); pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
	}
	c.events <- childEvent{kind: childGone}
}

// alive reports whether the group has processes other than those that this
// process can reap.
func (c *child) alive() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) || err == nil && pid <= 0 {
			break
		}
	}
	// Processes of another user, as of sudo, may not be signalled, but they
	// exist.
	err := unix.Kill(-c.pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// signal sends a signal to the group. A signal that is meant to end the group
// also resumes it if it is stopped.
func (c *child) signal(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	_ = unix.Kill(-c.pid, s) // fails if the group is empty
	if EndsWait(s) {
		c.resume()
	}
}

func (c *child) kill()   { _ = unix.Kill(-c.pid, unix.SIGKILL) }
func (c *child) resume() { _ = unix.Kill(-c.pid, unix.SIGCONT) }
