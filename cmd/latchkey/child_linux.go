package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr puts the child into a group of its own, and ties its life to that of
// the thread that starts it.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes us the parent of what the child leaves behind. So it can be
// reaped; else nobody might, in a container, and the group never be empty.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}
