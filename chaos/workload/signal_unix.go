//go:build unix

package workload

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Freeze suspends the process.
func (p *Process) Freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *Process) Thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Frozen says whether it is suspended, as the kernel sees it.
func (p *Process) Frozen() bool {
	for range 100 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, "T") {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}
