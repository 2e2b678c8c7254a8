//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package runner

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// A child is CMD. There are no process groups on this system: only the process
// itself can be signalled, and only with the signal that kills.
type child struct {
	process *os.Process
	events  chan childEvent
}

// ShellCommand returns the command that runs text in a shell.
func ShellCommand(text string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd.exe", "/C", text}
	}
	return []string{"/bin/sh", "-c", text}
}

var ignoredAtEnd = []os.Signal{os.Interrupt}

// CatchSignals catches the signals that end a command.
func CatchSignals() chan os.Signal {
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	return ch
}

// EndsWait reports whether a signal ends a wait for the lock.
func EndsWait(os.Signal) bool { return true }

func startChild(path string, argv, env []string, _ *terminal, _ chan<- os.Signal) (*child, error) {
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = argv, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{process: cmd.Process, events: make(chan childEvent, 2)}
	go func() {
		code := 0
		var exited *exec.ExitError
		switch err := cmd.Wait(); {
		case errors.As(err, &exited) && exited.ExitCode() >= 0:
			code = exited.ExitCode()
		case err != nil:
			code = failed
		}
		c.events <- childEvent{kind: childEnded, code: code}
		c.events <- childEvent{kind: childGone}
	}()
	return c, nil
}

// signal does nothing for an interrupt, which the console has sent to the child
// as well.
func (c *child) signal(sig os.Signal) {
	if sig != os.Interrupt {
		c.kill()
	}
}

func (c *child) kill()   { _ = c.process.Kill() }
func (c *child) resume() {}
