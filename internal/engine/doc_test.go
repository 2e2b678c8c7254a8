package engine

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each test that doc.go names for a state is there.
func TestStatesAreShown(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(doc), -1) {
		named[name] = true
	}
	require.NotEmpty(t, named)
	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for name := range named {
			if strings.Contains(string(source), "\nfunc "+name+"(") {
				delete(named, name)
			}
		}
		return err
	}))
	require.Empty(t, named, "named in doc.go, and nowhere")
}
