//go:build unix && !linux

package redistest

import (
	"os"
	"syscall"
)

// childAttr has nothing to offer here: only Linux can tie a child's life to
// its parent's, so a killed test process leaves its servers behind.
func childAttr() *syscall.SysProcAttr { return nil }

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
