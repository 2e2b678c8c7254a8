package seeded

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Cache()
	goleak.VerifyTestMain(m)
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := Root(t.Context())
	require.NoError(t, err)
	return dir
}

// Each edit can be made, and no two bugs have one name.
func TestTable(t *testing.T) {
	dir := root(t)
	names := map[string]bool{}
	for _, b := range Bugs() {
		_, err := b.Edited(dir)
		require.NoError(t, err)
		require.False(t, names[b.Name], "two bugs are named %s", b.Name)
		names[b.Name] = true
	}
	require.Greater(t, len(names), 100)
}

// A bug of each room that takes no server and little to compile; SEEDED=all puts all in,
// which takes half an hour.
func TestSeeded(t *testing.T) {
	dir := root(t)
	bugs := Bugs()
	if os.Getenv("SEEDED") != "all" {
		var fast []Bug
		for _, b := range bugs {
			if b.Fast {
				fast = append(fast, b)
			}
		}
		bugs = fast
	}
	require.NoError(t, Sound(t.Context(), dir, bugs))
	All(t.Context(), dir, bugs, 2, func(r Result) {
		if !r.Found() {
			t.Errorf("%s: not found: %s", r.Bug, r.Err)
		}
	})
}

// What is no bug is not found, and what does not compile, or has no test, says
// nothing.
func TestNotFound(t *testing.T) {
	dir := root(t)
	none := Bug{
		Name: "none", File: "internal/watchdog/window.go",
		Old: "// the granularity of Redis's clock", New: "// the grain of Redis's clock",
		Package: "internal/watchdog", Run: "^TestWindowLater$",
	}
	broken, untested, gone := none, none, none
	broken.New = "the granularity"
	untested.Run = "^TestOfNothing$"
	gone.Old = "what stands nowhere"
	results := All(t.Context(), dir, []Bug{none, broken, untested, gone}, 2, func(Result) {})
	for _, r := range results {
		require.False(t, r.Found(), "%+v", r)
	}
	require.Empty(t, results[0].Err)
	require.Contains(t, results[1].Err, "did not run")
	require.Contains(t, results[2].Err, "no test of")
	require.Contains(t, results[3].Err, "stands 0 times")
}

// What is compiled for a bug is not kept in the ordinary build cache, which is used all
// the same.
func TestCache(t *testing.T) {
	base, dir := t.TempDir(), t.TempDir()
	_, err := keep(base, cacheRequest{ActionID: []byte{1, 2}, OutputID: []byte{3, 4}}, []byte("old"))
	require.NoError(t, err)
	var out strings.Builder
	in := `{"ID":1,"Command":"get","ActionID":"AQI="}
{"ID":2,"Command":"get","ActionID":"BQY="}
{"ID":3,"Command":"put","ActionID":"BQY=","OutputID":"Bwg=","BodySize":3}

"bmV3"
{"ID":4,"Command":"put","ActionID":"CQk=","OutputID":"CQk="}
{"ID":5,"Command":"get","ActionID":"BQY="}
{"ID":6,"Command":"close"}
`
	require.NoError(t, serveCache(strings.NewReader(in), &out, dir, base))
	answers := json.NewDecoder(strings.NewReader(out.String()))
	paths := map[int64]string{}
	for answers.More() {
		var a cacheAnswer
		require.NoError(t, answers.Decode(&a))
		require.Empty(t, a.Err)
		require.Equal(t, a.ID == 2, a.Miss, "%+v", a)
		paths[a.ID] = a.DiskPath
	}
	require.Contains(t, paths[1], base)
	require.Contains(t, paths[3], dir)
	require.Equal(t, paths[3], paths[5])
	text, err := os.ReadFile(paths[5])
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
}

func TestFailure(t *testing.T) {
	for out, want := range map[string]string{
		"ok":                       "",
		"--- FAIL: TestA (0.1s)\n": "TestA",
		"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n":  "TestA/b",
		"=== RUN   TestA\n=== RUN   TestB\npanic: test timed out": "TestB",
		"# compile\nundefined: x":                                 "",
	} {
		require.Equal(t, want, failure(out), out)
	}
}

func TestMarkdown(t *testing.T) {
	text := Markdown([]Result{
		{Bug: "a/b", What: "x | y", FoundBy: "TestA/b", Seconds: 1.25},
		{Bug: "a/c", What: "z"},
		{Bug: "a/d", What: "z", Err: "did not compile"},
	})
	require.Contains(t, text, "1 of 3 bugs found")
	require.Contains(t, text, "| a/b | x \\| y | `TestA/b` | 1.2 |")
	require.Contains(t, text, "| a/c | z | **nothing** |")
	require.Contains(t, text, "| a/d | z | **the tests did not run** |")
}
