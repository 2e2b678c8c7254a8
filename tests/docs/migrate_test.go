package docs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// What docs/migrate.md says of a rollout: SET NX and a lock of that key keep each
// other out.
func TestSetNXAndLockExcludeEachOther(t *testing.T) {
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	client := latchkey.New(redistest.User(t, rdb))
	defer client.Close()
	lock := rlock.New(client, "orders:42")

	require.True(t, rdb.SetNX(ctx, "orders:42", "old", time.Minute).Val())
	_, err := lock.Lock(ctx)
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)
	_, err = lock.TryLock(ctx)
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)
	require.EqualValues(t, 1, rdb.Del(ctx, "orders:42").Val())

	hold, err := lock.Lock(ctx)
	require.NoError(t, err)
	require.False(t, rdb.SetNX(ctx, "orders:42", "old", time.Minute).Val())
	require.NoError(t, hold.Unlock(ctx))
	require.True(t, rdb.SetNX(ctx, "orders:42", "old", time.Minute).Val())
}
