//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package runner

import "syscall"

// groupAttr puts the child into a process group of its own. Only Linux can make
// the child die with this process.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() {}

// ignoredBefore returns the signals that were ignored when this process started
// and that Go does not report itself. Here they are unknown.
func ignoredBefore() uint64 { return 0 }

func bit(sig syscall.Signal) uint64 { return 1 << (sig - 1) }
