package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// TestFIPS runs the command where FIPS 140 is demanded.
func TestFIPS(t *testing.T) {
	s := redistest.Start(t)
	for _, args := range [][]string{
		{"version"},
		{"-u", "redis://" + s.Addr, "run", "job", "--", "true"},
		{"-u", "redis://" + s.Addr, "ls"},
	} {
		c := prepare(t, args...)
		c.cmd.Env = append(c.cmd.Env, "GODEBUG=fips140=only")
		c.start()
		<-c.done
		require.Zero(t, c.cmd.ProcessState.ExitCode(), "%v: %s", args, &c.err)
	}
}
