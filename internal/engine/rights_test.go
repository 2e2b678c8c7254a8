package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The commands of docs/security.md are those of the scripts, and of the connections.
func TestCommandsAreDocumented(t *testing.T) {
	rights, err := redistest.Documented("")
	require.NoError(t, err)
	want := strings.Fields("+evalsha +eval +ping +pubsub|numsub +pubsub|shardnumsub" +
		" +rpush +subscribe +unsubscribe +ssubscribe +sunsubscribe") // sent as they are, or by a name put together
	files, err := filepath.Glob("../../lua/*/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	for _, file := range append(files, "../../lua/publish.lua") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`call\('([A-Z]+)'`).FindAllSubmatch(text, -1) {
			if string(m[1]) != "PUBSUB" {
				want = append(want, "+"+strings.ToLower(string(m[1])))
			}
		}
	}
	slices.Sort(want)
	var got []string
	for _, rule := range slices.Concat(rights.Base, rights.Sharded, []string{"+xadd"}) { // the last is for WithHistory
		if rule[0] == '+' {
			got = append(got, rule)
		}
	}
	require.ElementsMatch(t, slices.Compact(want), got)
}
