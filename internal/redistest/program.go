package redistest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Twins starts two processes of the program in a directory, each with s as its
// REDIS_URL. When they have written n lines together both get TERM, and must end well. It
// returns all lines.
func (s *Server) Twins(t testing.TB, dir string, n int) (lines []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := make(chan string)
	var reads sync.WaitGroup
	var twins [2]*exec.Cmd
	var errs [2]strings.Builder
	for i := range twins {
		cmd := exec.CommandContext(t.Context(), path)
		cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.Addr)
		cmd.Stderr = &errs[i]
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		twins[i] = cmd
		reads.Go(func() {
			for text := bufio.NewScanner(out); text.Scan(); {
				read <- text.Text()
			}
		})
	}
	go func() {
		reads.Wait()
		close(read)
	}()
	for line := range read {
		if lines = append(lines, line); len(lines) == n {
			for _, cmd := range twins {
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}
	for i, cmd := range twins {
		if err := cmd.Wait(); err != nil || len(lines) < n {
			t.Fatalf("%v after the lines %q: %v\n%s", cmd, lines, err, errs[i].String())
		}
	}
	return lines
}
