package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

func TestSmoke(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := latchkey.New(rdb)
	defer c.Close()
	l := rlock.New(c, "a", rlock.Fenced())
	ctx := t.Context()
	h, err := l.Lock(ctx, latchkey.Label("me"))
	require.NoError(t, err)
	t.Log(h.HolderID(), h.Token(), h.Remaining(), rdb.HGetAll(ctx, "a").Val(), rdb.PTTL(ctx, "a").Val(), rdb.Keys(ctx, "*").Val())
	h2, err := l.Lock(h.Context())
	require.NoError(t, err)
	t.Log(h2.Token(), rdb.HGetAll(ctx, "a").Val())
	_, err = l.TryLock(ctx)
	t.Log(err)
	go func() { time.Sleep(200 * time.Millisecond); h2.Unlock(ctx); h.Unlock(ctx) }()
	start := time.Now()
	h3, err := l.TryLock(ctx, latchkey.Wait(3*time.Second))
	require.NoError(t, err)
	t.Log(time.Since(start), c.Stats())
	require.NoError(t, h3.Unlock(ctx))
	t.Log(h3.Unlock(ctx), h3.Context().Err(), rdb.Keys(ctx, "*").Val())
}

func BenchmarkPair(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b)
	c := latchkey.New(rdb)
	defer c.Close()
	l := rlock.New(c, "a")
	bg := context.Background()
	cancelable, cancel := context.WithCancel(bg)
	defer cancel()
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		cad := redis.NewScript("if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0")
		for b.Loop() {
			rdb.SetNX(bg, "x", "v", 30*time.Second)
			cad.Run(bg, rdb, []string{"x"}, "v")
		}
	})
	b.Run("bg", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := l.Lock(bg)
			if err != nil { b.Fatal(err) }
			h.Unlock(bg)
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := l.Lock(cancelable)
			if err != nil { b.Fatal(err) }
			h.Unlock(cancelable)
		}
	})
}
