package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/flight"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// While a call of flight or idem runs, its lock is listed and shown. What is kept of it
// is no object: it is not listed, and show says what it is.
func TestCalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := locktest.NewClient(t, redistest.User(t, rdb))
	kept := func(pattern, name string) {
		t.Helper()
		for _, key := range rdb.Keys(t.Context(), pattern).Val() {
			code, stdout, stderr := execute(t, at(s, "show", key)...)
			assert.Equal(t, exit.Failed, code)
			assert.Empty(t, stdout)
			assert.Equal(t, "latchkey: "+key+": the key is what latchkey has kept of a call under "+name+"\n", stderr)
		}
	}
	runs := func(lock, name string) {
		t.Helper()
		_, stdout, _ := execute(t, at(s, "ls")...)
		assert.Regexp(t, `^NAME .*\n\Q`+lock+`\E +lock .*\n$`, stdout)
		code, stdout, _ := execute(t, at(s, "show", lock)...)
		assert.Zero(t, code)
		assert.Regexp(t, `^\Q`+lock+`\E  lock\n  lease `, stdout)
		assert.Len(t, rdb.Keys(t.Context(), lock+"_call").Val(), 1)
		kept(lock+"_call", name)
	}
	_, _, err := flight.Do(t.Context(), c, "report", func(context.Context) (int, error) {
		runs("{report}:latchkey_flight", "report")
		return 1, nil
	}, flight.TTL(time.Hour))
	require.NoError(t, err)
	id := ""
	_, _, err = idem.New(c).Do(t.Context(), "ann", "k", nil, func(context.Context) ([]byte, bool) {
		lock := rdb.Keys(t.Context(), "*:latchkey_idem").Val()[0]
		id = lock[1 : len(lock)-len("}:latchkey_idem")]
		runs(lock, id)
		return nil, true
	})
	require.NoError(t, err)

	require.Len(t, rdb.Keys(t.Context(), "*").Val(), 2)
	kept("*_flight_value", "report")
	kept("*_idem_value", id)
	_, stdout, stderr := execute(t, at(s, "ls")...)
	assert.Regexp(t, `^NAME .*\n$`, stdout)
	assert.Contains(t, stderr, "no lock, semaphore or latch among 2 keys")
}
