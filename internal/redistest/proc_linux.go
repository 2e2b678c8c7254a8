package redistest

import (
	"os"
	"syscall"
)

// childAttr makes the kernel kill a child when the thread that started it ends.
// startProcesses keeps that thread until the process ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
