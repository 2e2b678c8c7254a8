package latchkey_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

func TestInfoTellsWhoHolds(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := latchkey.New(rdb, latchkey.WithKeyPrefix("app:"))
	defer c.Close()
	ctx := t.Context()

	info, err := c.Info(ctx, "job")
	require.NoError(t, err, "a free name is no error")
	require.Equal(t, latchkey.Info{Name: "job"}, info)

	h, err := rlock.New(c, "job", rlock.Fenced()).Lock(ctx, latchkey.Label("nightly @ host-1"))
	require.NoError(t, err)
	info, err = c.Info(ctx, "job")
	require.NoError(t, err)
	require.Equal(t, latchkey.KindLock, info.Kind)
	require.Equal(t, []latchkey.HolderInfo{{ID: h.HolderID(), Label: "nightly @ host-1", Count: 1}}, info.Holders)
	require.Equal(t, h.Token(), info.Token)
	require.InDelta(t, 30*time.Second, info.Lease, float64(5*time.Second))

	require.NoError(t, h.Unlock(ctx))
	require.Equal(t, []string{"redisson_lock_token:{app:job}"}, rdb.Keys(ctx, "*").Val(), "the label goes with the lock")
	info, err = c.Info(ctx, "job")
	require.NoError(t, err)
	require.Equal(t, latchkey.Info{Name: "job", Token: h.Token()}, info)
}

func TestInfoOfOtherKeys(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := latchkey.New(rdb)
	defer c.Close()
	ctx := t.Context()

	require.NoError(t, rdb.Set(ctx, "text", "x", 0).Err())
	_, err := c.Info(ctx, "text")
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)

	_, err = c.Info(ctx, "")
	require.ErrorContains(t, err, "empty")

	// As Java's read-write lock leaves it.
	require.NoError(t, rdb.HSet(ctx, "rw", "mode", "read", "0b7c9a3e:1", 2).Err())
	info, err := c.Info(ctx, "rw")
	require.NoError(t, err)
	require.Equal(t, latchkey.KindReadWrite, info.Kind)
	require.Equal(t, []latchkey.HolderInfo{{ID: "0b7c9a3e:1", Count: 2}}, info.Holders)
	require.Equal(t, time.Duration(-1), info.Lease)
}
