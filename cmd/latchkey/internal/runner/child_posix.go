//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package runner

import "syscall"

// groupAttr puts the child into a group of its own. Only Linux can end it with
// us.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() {}

// ignoredBefore returns the signals that were ignored when this process was
// started, beyond those that Go tells of itself: here there are none to be seen.
func ignoredBefore() uint64 { return 0 }

func bit(sig syscall.Signal) uint64 { return 1 << (sig - 1) }
