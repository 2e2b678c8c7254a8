package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// history shows the newest events, of one name or of all, or says why there are none.
func TestHistory(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, "xadd", "xrevrange")
	require.Empty(t, decoded[[]shownEvent](t, at(s, "history")...))
	c := latchkey.New(redistest.User(t, s.Client(t)), latchkey.WithHistory(100), latchkey.WithKeyPrefix("app:"))
	for _, name := range []string{"x", "y"} {
		h, err := rlock.New(c, name).Lock(t.Context(), latchkey.Label("ann"))
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.NoError(t, c.Close())
	require.Len(t, decoded[[]shownEvent](t, at(s, "history", "--prefix", "app:")...), 4)
	require.Len(t, decoded[[]shownEvent](t, at(s, "history", "-n", "3", "--prefix", "app:")...), 3)
	events := decoded[[]shownEvent](t, at(s, "history", "app:x", "--prefix", "app:")...)
	require.Len(t, events, 2)
	assert.Equal(t, "released", events[0].Event)
	assert.Equal(t, "app:x", events[1].Name)
	assert.Equal(t, "ann", events[1].Label)
	require.Empty(t, decoded[[]shownEvent](t, at(s, "history")...), "another prefix has another history")
}
