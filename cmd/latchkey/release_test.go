package main

import (
	"os"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a release is made of names things of the code, which go their own ways.
func TestReleaseFiles(t *testing.T) {
	t.Parallel()
	text := func(name string) string {
		b, err := os.ReadFile("../../" + name)
		require.NoError(t, err)
		return string(b)
	}
	_ = release // the linker sets it by this name
	for _, file := range []string{".goreleaser.yaml", "Dockerfile"} {
		assert.Contains(t, text(file), "-X main.release=", file)
		assert.Contains(t, text(file), "cmd/latchkey", file)
	}
	uses := regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(text("go.work"), -1)
	require.NotEmpty(t, uses)
	for _, use := range uses {
		dir := path.Join("/", use[1])
		assert.Contains(t, text(".github/dependabot.yml"), `"`+dir+`"`, "dependencies of %s are updated", dir)
	}
	assert.Contains(t, text(".goreleaser.yaml"), "  github:\n    owner: latchkey-go\n    name: latchkey\n", "a clone may have no remote")
	// A key that goreleaser does not know ends a release.
	known := " archives before builds changelog checksum project_name release snapshot version "
	for _, m := range regexp.MustCompile(`(?m)^(\w+):`).FindAllStringSubmatch(text(".goreleaser.yaml"), -1) {
		assert.Contains(t, known, " "+m[1]+" ")
	}
}
