package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The user of docs/security.md may use all that stands beside an object. Tests whose
// names may be anything do not show it: their user has all keys.
func TestSidesAreDocumented(t *testing.T) {
	rights, err := redistest.Documented("app:")
	require.NoError(t, err)
	for _, s := range sides {
		mark := "~"
		if s.side == SideWakeUps {
			mark = "&"
		}
		if s.prefix != "latchkey_latch_channel" { // only for names that have a tag
			assert.Contains(t, rights.Base, mark+s.prefix+":{app:*")
		}
		assert.Contains(t, rights.OwnTags, mark+s.prefix+":app:*")
	}
	assert.Contains(t, rights.Base, "&"+latchChannel+"app:*")
}

// The commands of docs/security.md are those of the scripts, and of the connections.
func TestCommandsAreDocumented(t *testing.T) {
	rights, err := redistest.Documented("")
	require.NoError(t, err)
	want := strings.Fields("+evalsha +eval +ping +pubsub|numsub +pubsub|shardnumsub" +
		" +rpush +subscribe +unsubscribe +ssubscribe +sunsubscribe") // sent as they are, or by a name put together
	files, err := filepath.Glob("../../lua/*/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	for _, file := range files {
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
	for _, rule := range slices.Concat(rights.Base, rights.Sharded) {
		if rule[0] == '+' {
			got = append(got, rule)
		}
	}
	require.ElementsMatch(t, slices.Compact(want), got)
}
