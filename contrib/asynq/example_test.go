package asynq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Of two processes of the example one schedules.
func TestExample(t *testing.T) {
	redistest.Long(t, "two processes for some seconds")
	by := map[string]bool{}
	for _, line := range redistest.Start(t).Twins(t, "./example", 10) {
		if strings.HasPrefix(line, "enqueued") {
			by[line] = true
		}
	}
	require.Len(t, by, 1)
}
