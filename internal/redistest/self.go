package redistest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// selfTask names the variable that makes of a test program a process of its tests.
const selfTask = "LATCHKEY_TEST_TASK"

// Self makes of a test program that [StartSelf] has started the process with that task: it
// calls work and exits. Otherwise it does nothing. TestMain calls it first.
func Self[T any](work func(task T) error) {
	text := os.Getenv(selfTask)
	if text == "" {
		return
	}
	var task T
	err := json.Unmarshal([]byte(text), &task)
	if err == nil {
		err = work(task)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// StartSelf starts the test program once more, for a task that JSON can carry. wait waits for
// its end; its error has what the process has written to its standard error. The process is
// killed when the test ends.
func StartSelf(t testing.TB, task any) (cmd *exec.Cmd, wait func() error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), selfTask+"="+string(text))
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait = sync.OnceValue(func() error {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, out.String())
		}
		return nil
	})
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = wait() })
	return cmd, wait
}
