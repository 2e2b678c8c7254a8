package countdownlatch_test

import (
	"testing"

	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/lua"
)

// TestNeverHalfWay checks that a script that stops in the middle, because the
// user may not run one of its commands, neither loses a count nor opens the
// latch without a message.
func TestNeverHalfWay(t *testing.T) {
	const look = `return tostring(redis.call('GET', KEYS[1])) .. ' ' .. redis.call('EXISTS', KEYS[#KEYS])`
	count := func(now int64) []any { return []any{7, keep, now + within, ahead, "ch", "PUBLISH"} }
	set := func(now int64) []any { return []any{3, 7, keep, now + within, ahead, "ch", "PUBLISH"} }
	remove := func(int64) []any { return []any{keep, "ch", "PUBLISH"} }
	keys := []string{"l", "c", "ended"}
	locktest.NeverHalfWay(t,
		locktest.HalfWay{Script: lua.LatchCountDown, Keys: keys, Begin: [][]any{{"SET", "l", 3}}, Args: count, Look: look},
		locktest.HalfWay{Script: lua.LatchCountDown, Keys: keys, Begin: [][]any{{"SET", "l", 3}, {"SET", "c", 2, "PX", keep}}, Args: count, Look: look},
		locktest.HalfWay{Script: lua.LatchCountDown, Keys: keys, Begin: [][]any{{"SET", "l", 1}}, Args: count, Look: look},
		locktest.HalfWay{Script: lua.LatchSet, Keys: []string{"l", "c"}, Args: set, Look: `return tostring(redis.call('GET', KEYS[1]))`},
		locktest.HalfWay{Script: lua.LatchDelete, Keys: []string{"l", "ended"}, Begin: [][]any{{"SET", "l", 3}}, Args: remove, Look: look},
	)
}
