package latchkey_test

import (
	"context"
	"crypto/fips140"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// notApproved are packages that panic with GODEBUG=fips140=only.
var notApproved = []string{"crypto/md5", "crypto/sha1", "crypto/des", "crypto/rc4"}

// TestFIPS runs the library in a process that must comply with FIPS 140.
func TestFIPS(t *testing.T) {
	if addr := os.Getenv("FIPS_TEST_REDIS"); addr != "" {
		require.True(t, fips140.Enforced())
		useAll(t, addr)
		return
	}
	for _, p := range listPackages(t) {
		if p.Module == nil || p.Module.Path != modulePath || p.ImportPath == modulePath+"/lua" {
			continue
		}
		for _, bad := range notApproved {
			require.False(t, slices.Contains(p.Imports, bad), "%s imports %s", p.ImportPath, bad)
		}
	}
	s := redistest.Start(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFIPS$", "-test.count=1")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", "FIPS_TEST_REDIS="+s.Addr)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func useAll(t *testing.T, addr string) {
	ctx := t.Context()
	client := func() *latchkey.Client {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		c := latchkey.New(rdb)
		t.Cleanup(func() {
			require.NoError(t, c.Close())
			require.NoError(t, rdb.Close())
		})
		return c
	}
	a, b := client(), client()
	h, err := rlock.New(a, "lock").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))

	// A fair lock goes to a waiter of another client with a tag, which is a SHA-1.
	h, err = fairlock.New(a, "fair").Lock(ctx)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		h, err := fairlock.New(b, "fair").Lock(ctx)
		if err == nil {
			err = h.Unlock(context.WithoutCancel(ctx))
		}
		got <- err
	}()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	redistest.Until(t, "the waiter to be in the queue and to listen", func() bool {
		queue, err := rdb.LLen(ctx, "redisson_lock_queue:{fair}").Result()
		require.NoError(t, err)
		names, err := rdb.PubSubChannels(ctx, "*fair*").Result()
		require.NoError(t, err)
		return queue == 1 && slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, b.ID()) })
	})
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, <-got)

	s := semaphore.New(a, "permits")
	_, err = s.TrySetPermits(ctx, 2)
	require.NoError(t, err)
	require.NoError(t, s.Acquire(ctx, 1))
	require.NoError(t, s.Release(ctx, 1))
}
