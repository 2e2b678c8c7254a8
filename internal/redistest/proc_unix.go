//go:build unix && !linux

package redistest

import (
	"os"
	"syscall"
)

// childAttr returns nil: only Linux can make a child die with its parent, so on
// this system a killed test process leaves its servers behind.
func childAttr() *syscall.SysProcAttr { return nil }

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
