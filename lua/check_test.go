package lua_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/latchkey-go/latchkey/lua"
)

var redisCommand = regexp.MustCompile(`(?:call|try)\('([A-Z]+)'`)

// inspect/check tries every command that any script runs, but for those of
// pub/sub, which are tried from outside, and that of the history, which few clients
// write.
func TestCheckTriesAllCommands(t *testing.T) {
	const check = "inspect/check.lua"
	tried := append(commands(t, check), "PUBLISH", "SPUBLISH", "PUBSUB", "XADD")
	for _, path := range scripts(t) {
		for _, c := range commands(t, path) {
			if !slices.Contains(tried, c) {
				t.Errorf("%s runs %s, which %s does not try", path, c, check)
			}
		}
	}
}

// readCommands are those that EVALSHA_RO lets a script run.
var readCommands = []string{
	"EXISTS", "GET", "GETRANGE", "HGET", "HGETALL", "HLEN", "HRANDFIELD", "HSCAN", "HVALS", "LRANGE", "PTTL", "PUBSUB", "TIME", "TYPE", "ZRANGE", "ZSCORE",
}

// A script is marked as one that only reads if it does.
func TestReaders(t *testing.T) {
	for _, s := range []*lua.Script{
		lua.RLockState, lua.RWLockState, lua.FairLockWaiters, lua.SemaphoreState, lua.LatchState, lua.GroupState, lua.InspectObject,
		lua.InspectSides, lua.InspectFields, lua.InspectPermits, lua.PermitState, lua.RLockAcquire,
	} {
		reads := true
		for _, m := range anyCommand.FindAllStringSubmatch(s.Source, -1) {
			reads = reads && slices.Contains(readCommands, m[1])
		}
		if s.Reads != reads {
			t.Errorf("%s: Reads is %t, and it only reads: %t", s.Name, s.Reads, reads)
		}
	}
}

// anyCommand finds what may be a command, called by whatever name.
var anyCommand = regexp.MustCompile(`\('([A-Z]+)'`)

func commands(t *testing.T, path string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range redisCommand.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 && path != "fairlock/queue.lua" && path != "integer.lua" && path != "hex.lua" {
		t.Errorf("%s seems to run no command", path)
	}
	return names
}
