package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/ui"
)

// The page of a lock shows its last events, and Contention those of the last hour.
func TestHistory(t *testing.T) {
	s := start(t, ui.Options{}, latchkey.WithHistory(1000), latchkey.WithKeyPrefix("app:"))
	const off = "History is off"
	assert.Contains(t, s.get("/lock?name=orders"), off)
	s.shows("/contention", off)

	hold, err := rlock.New(s.client, "orders").Lock(t.Context(), latchkey.Label("ann"))
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(t.Context()))
	page := s.shows("/lock?name=orders", ">released<")
	assert.Contains(t, page, ">acquired<")
	assert.Contains(t, page, "ann")
	assert.NotContains(t, page, off)
	assert.Contains(t, s.get("/lock?name=other"), "Nothing is known of it.")
	page = s.shows("/contention", "<svg")
	assert.Equal(t, 2, strings.Count(page, `role="img" aria-label="Longest `))
	assert.Contains(t, page, "<rect")
	assert.Contains(t, s.get("/lock?name=orders", "Accept-Language", "zh-CN"), ">释放<")

	// Anybody who may write the stream may write anything.
	for _, values := range [][]any{
		{"a", "b"},
		{"event", "lost", "name", "app:orders", "holder", "<script>alert(1)</script>", "label", "<b>", "at", "x", "held", "-7", "reason", "<i>"},
		{"event", "acquired", "name", "app:orders", "at", time.Now().Add(time.Hour).UnixMilli(), "wait", "9223372036854775"},
	} {
		require.NoError(t, s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "{app:}:latchkey_history", Values: values}).Err())
	}
	// What a client has told of itself is beside it while it holds something.
	hold, err = rlock.New(s.client, "orders").Lock(t.Context())
	require.NoError(t, err)
	for _, ago := range []time.Duration{2 * time.Hour, time.Minute, 0} {
		require.NoError(t, s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "{app:}:latchkey_history", Values: []any{
			"event", "late", "name", "app:orders", "holder", hold.HolderID(), "at", time.Now().Add(-ago).UnixMilli(), "wait", 12_000_000, "version", "v1.2.3<",
		}}).Err())
	}
	page = s.shows("/clients", ">v1.2.3&lt;<")
	assert.Contains(t, page, `<b class="hot">2</b>`)
	require.NoError(t, hold.Unlock(t.Context()))

	page = s.shows("/lock?name=orders", "&lt;script&gt;")
	assert.NotContains(t, page, "<script>alert")
	s.get("/contention")
}
