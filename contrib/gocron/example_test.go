package gocron_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/once"
)

// Two processes of the example write one line for each fire.
func TestExample(t *testing.T) {
	redistest.Long(t, "two processes for some seconds")
	server := redistest.Start(t)
	lines := server.Twins(t, "./example", 5)
	runs, err := once.New(locktest.NewClient(t, server.Client(t)), "tick").Runs(t.Context(), 1000)
	require.NoError(t, err)
	require.Len(t, lines, len(runs))
}
