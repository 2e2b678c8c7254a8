package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// StartSentinel runs a sentinel that watches master under the given name, and
// returns when it knows the master. lines are added to its configuration.
// Without a line for that, the master must not require a password.
func StartSentinel(t testing.TB, name string, master *Server, lines ...string) *Server {
	t.Helper()
	conf := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %s 1000\n", name, master.port, name)
	for _, line := range lines {
		conf += line + "\n"
	}
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := start(t, need(t), []string{file, "--sentinel"}, nil)
	Until(t, "the sentinel to know its master", func() bool {
		got, err := s.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
		return err == nil && len(got) == 2
	})
	return s
}
