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

// ignoredBefore returns the signals that were ignored when this process was
// started, a bit for each. Go keeps HUP and INT so, and the signals of job control.
// Of the others that are caught here it has kept nothing by now: those count as
// ignored that the parent ignores, which is where it comes from (trap ” USR1).
func ignoredBefore() uint64 {
	theirs := ignoredBy(os.Getppid())
	if theirs&bit(syscall.SIGTTOU) != 0 {
		// A shell with job control, which ignores these itself and not for others.
		theirs &^= bit(syscall.SIGTERM) | bit(syscall.SIGQUIT)
	}
	lost := bit(syscall.SIGTERM) | bit(syscall.SIGQUIT) | bit(syscall.SIGUSR1) | bit(syscall.SIGUSR2)
	return ignoredBy(os.Getpid()) | theirs&lost
}

func bit(sig syscall.Signal) uint64 { return 1 << (sig - 1) }

// ignoredBy returns the signals that a process ignores; none if that is not to be
// known.
func ignoredBy(pid int) uint64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if mask, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64) // 0 if it is no number
			return n
		}
	}
	return 0
}
