package cron_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Two processes of the example write each second once.
func TestExample(t *testing.T) {
	redistest.Long(t, "two processes for some seconds")
	seen := map[string]bool{}
	for _, line := range redistest.Start(t).Twins(t, "./example", 5) {
		require.False(t, seen[line], "twice: %s", line)
		seen[line] = true
	}
}
