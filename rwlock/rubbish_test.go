package rwlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/lua"
)

// Hold counts may have been written by others. A senseless one must not keep
// the server busy, because a script that has begun to write cannot be ended.
func TestRubbishCounts(t *testing.T) {
	onBoth(t, func(s *scripted) {
		for _, count := range []string{"1e300", "9223372036854775808", strings.Repeat("9", 400), "nan", "inf", "-inf", "-1", "1.5", ""} {
			for _, mode := range []string{"read", "write"} {
				begin := time.Now()
				scene := func() {
					s.do("FLUSHALL")
					s.do("HSET", "lock", "mode", mode, "you:1", count, "me:1", count, "me:1:write", "1")
					s.do("PEXPIRE", "lock", 60000)
				}
				for _, call := range []struct {
					script *lua.Script
					keys   []string
					args   []any
				}{
					{lua.RWLockAcquireWrite, []string{"lock", sign}, []any{"she:1:write", 1, 30000, s.now() + within, ahead, prefix, 0}},
					{lua.RWLockReleaseRead, []string{"lock"}, []any{"me:1", 0, s.now() + within, ahead, prefix, "ch", "PUBLISH"}},
					{lua.RWLockReleaseWrite, []string{"lock"}, []any{"me:1:write", 0, s.now() + within, ahead, prefix, "ch", "PUBLISH"}},
					{lua.RWLockForce, []string{"lock"}, []any{"read", prefix, "ch", "PUBLISH"}},
					{lua.RWLockForce, []string{"lock"}, []any{"write", prefix, "ch", "PUBLISH"}},
					{lua.RWLockState, []string{"lock"}, []any{"read", prefix, "", 0}},
				} {
					scene()
					_, _ = s.run(call.script, call.keys, call.args...) // whatever it says
				}
				require.Less(s, time.Since(begin), 5*time.Second, "%s, %s", count, mode)
			}
		}
	})
}
