//go:build linux

package redistest_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// TestSentinelsSettle starts an unintended failover while the intended one is
// being undone, and leaves the Sentinels and their servers to themselves.
func TestSentinelsSettle(t *testing.T) {
	s := redistest.StartSentinels(t)
	s.Tune(t)
	s.Settle(t)
	for _, w := range s.Sentinels {
		if periods, err := w.Ask("SENTINEL", "DEBUG"); err == nil { // from Redis 7.0 on
			told := strings.ToUpper(strings.Join(periods, " "))
			for _, period := range []string{"PING-PERIOD 200", "INFO-PERIOD 1000", "PUBLISH-PERIOD 500"} {
				assert.Contains(t, told, period)
			}
		}
	}
	old, promoted := s.Failover(t, (*redistest.Server).Kill)
	redistest.Until(t, "all Sentinels to name it", func() bool {
		return !slices.ContainsFunc(s.Sentinels, func(w *redistest.Server) bool {
			addr, err := w.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "primary")
			return err != nil || net.JoinHostPort(addr[0], addr[1]) != s.Nodes[promoted].Addr
		})
	})
	s.Nodes[old].Restart(t)
	redistest.Until(t, "a Sentinel to begin a failover", func() bool {
		return slices.ContainsFunc(s.Sentinels, func(w *redistest.Server) bool {
			_, err := w.Ask("SENTINEL", "FAILOVER", "primary")
			return err == nil
		})
	})
	s.Settle(t)

	now := s.Primary()
	assert.NotEqual(t, promoted, now, "it was waited for")
	for i, n := range s.Nodes {
		if role := n.Do(t, "ROLE"); i == now {
			assert.Equal(t, "master", role[0])
		} else {
			require.Equal(t, []string{"slave", "127.0.0.1"}, role[:2])
			assert.Equal(t, s.Nodes[now].Addr, role[1]+":"+role[2])
		}
		for line := range strings.Lines(n.Log()) {
			if strings.Contains(line, "(user request from") {
				assert.Regexp(t, ` name=(sentinel-|\*redacted\*)`, line, "only Sentinels give a role") // Valkey 9 tells no names
			}
		}
	}
	assert.NoError(t, s.Client(t).Set(t.Context(), "k", "v", 0).Err())
}
