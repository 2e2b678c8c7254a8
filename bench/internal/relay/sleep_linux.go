package relay

import (
	"syscall"
	"time"
)

// exact lets the kernel wake this thread when its sleep is over, and not up to 50 µs
// later together with others.
func exact() {
	const setTimerSlack = 29 // PR_SET_TIMERSLACK, in ns
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

// sleep sleeps on this thread: a timer of Go's is up to 1 ms late where nothing else
// happens.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}
