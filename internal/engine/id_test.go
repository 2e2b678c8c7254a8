package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/names"
)

// Whatever id is accepted, what is made of it can be read back.
func TestIDs(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = rdb.Close() })
	for id, good := range map[string]bool{
		"worker-1": true, "10.0.0.7:8080": true, "[::1]:6379": true, "eu/web.3": true, "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51": true,
		"a:1": true, "7": true, ":": true, "caf\u00e9": true, "{x}": true, "%d*?": true, strings.Repeat("x", 256): true,
		"": false, "worker 1": false, " a": false, "a 1 30000 x": false, "a\tb": false, "a\nb": false, "a\x00": false, "a\x7f": false,
		"a\u00a0b": false, "a\u2028b": false, "\xff": false, strings.Repeat("x", 257): false,
	} {
		require.Equal(t, good, names.CheckID(id) == nil, "%q", id)
		if !good {
			continue
		}
		e := New(rdb, Config{ID: id})
		holder := e.HolderID(17)
		require.Equal(t, id, names.ClientOf(holder))
		n, ok := e.number(holder)
		require.True(t, ok)
		require.EqualValues(t, 17, n)
		hd := &holding{engine: e, field: holder}
		parts := strings.Split(hd.waitlistEntry(&Spec{Key: "k", Fenced: true}, time.Second), " ")
		require.Len(t, parts, 5)
		require.Equal(t, []string{holder, "1000", e.inbox}, parts[:3])
		require.Equal(t, parts[3], nonceOf(strings.Join(parts, " ")))
	}
}
