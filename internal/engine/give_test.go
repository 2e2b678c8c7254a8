package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A client forgets the entry of who was given a lock, and nobody else's.
func TestListedForgets(t *testing.T) {
	var l listed
	l.forget("k", "client:12")
	const entry = "client 12 30000 proof"
	for _, other := range []string{"client:1", "client:123", "client:13", "clien:12", "client:12:12", "clients:12", "other:12"} {
		l.set("k", entry)
		l.forget("k", other)
		require.Equal(t, entry, l.get("k"), other)
	}
	l.set("other", entry)
	l.forget("k", "client:12")
	require.Empty(t, l.get("k"))
	require.Equal(t, entry, l.get("other"))
	l.forget("other", "client:12")
	require.Zero(t, l.n.Load(), "so that nobody looks any more")
}
