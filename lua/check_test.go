package lua_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

var redisCommand = regexp.MustCompile(`(?:call|try)\('([A-Z]+)'`)

// inspect/check tries every command that any script runs, but for those of
// pub/sub, which are tried from outside.
func TestCheckTriesAllCommands(t *testing.T) {
	const check = "inspect/check.lua"
	tried := append(commands(t, check), "PUBLISH", "SPUBLISH", "PUBSUB")
	for _, path := range scripts(t) {
		for _, c := range commands(t, path) {
			if !slices.Contains(tried, c) {
				t.Errorf("%s runs %s, which %s does not try", path, c, check)
			}
		}
	}
}

func commands(t *testing.T, path string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range redisCommand.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 && path != "fairlock/queue.lua" {
		t.Errorf("%s seems to run no command", path)
	}
	return names
}
