package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInsert(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	const begin, end = "<!-- part: begin; written by it -write -->", "<!-- part: end -->"
	require.NoError(t, os.WriteFile(path, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600))
	for range 2 { // the second time in the place of the first
		require.NoError(t, Insert(path, "part", "it", "new\n"))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "before\n"+begin+"\n\nnew\n\n"+end+"\nafter\n", string(text))
	}
	require.ErrorContains(t, Insert(path, "other", "it", "new"), "has no place")
	require.Error(t, Insert(path+"x", "part", "it", "new"))
}

// The pages that make prove and make seeded write have a place for what is written.
func TestPagesHaveAPlace(t *testing.T) {
	for part, command := range map[string]string{"campaign": "chaos", "matrix": "matrix", "seeded": "seeded"} {
		text, err := os.ReadFile("../../docs/evidence/" + part + ".md")
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), part+".md")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		require.NoError(t, Insert(path, part, command, "new"))
	}
}
