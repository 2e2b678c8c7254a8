//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package runner

import "syscall"

// A terminal is the controlling terminal of a session. This system has none.
type terminal struct{ ours int }

func openTerminal() *terminal { return nil }

func asksForTerminal(syscall.Signal) bool { return false }

func (*terminal) close()          {}
func (*terminal) foreground() int { return -1 }
func (*terminal) has() bool       { return false }
func (*terminal) suspend()        {}
func (*terminal) handOver()       {}
func (*terminal) takeBack()       {}
