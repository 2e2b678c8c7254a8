package runner

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr puts the child into a process group of its own and makes it die
// with the thread that starts it.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of orphans of the child, so that
// it can reap them. Otherwise, in a container, perhaps nobody would, and the
// group would never be empty.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// ignoredBefore returns the signals that were ignored when this process
// started, as a bit mask. Go keeps HUP, INT and the signals of job control
// ignored. Go has already replaced the state of the other signals that are
// caught here. They count as ignored if the parent ignores them, because that
// is where a child's state comes from (trap "" USR1).
func ignoredBefore() uint64 {
	theirs := ignoredBy(os.Getppid())
	if theirs&bit(syscall.SIGTTOU) != 0 {
		// The parent is a shell with job control, which ignores these signals
		// for itself and not for its children.
		theirs &^= bit(syscall.SIGTERM) | bit(syscall.SIGQUIT)
	}
	lost := bit(syscall.SIGTERM) | bit(syscall.SIGQUIT) | bit(syscall.SIGUSR1) | bit(syscall.SIGUSR2)
	return ignoredBy(os.Getpid()) | theirs&lost
}

func bit(sig syscall.Signal) uint64 { return 1 << (sig - 1) }

// ignoredBy returns the signals that a process ignores, or none if that is
// unknown.
func ignoredBy(pid int) uint64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if mask, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64) // 0 if it is not a number
			return n
		}
	}
	return 0
}
