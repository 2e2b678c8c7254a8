package latchkey_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// scriptsSeen is a hook that counts scripts.
type scriptsSeen struct{ atomic.Int64 }

func (*scriptsSeen) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *scriptsSeen) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		n.count(cmd)
		return next(ctx, cmd)
	}
}

func (n *scriptsSeen) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n.count(cmds...)
		return next(ctx, cmds)
	}
}

func (n *scriptsSeen) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if name := cmd.Name(); name == "evalsha" || name == "eval" {
			n.Add(1)
		}
	}
}

// Hooks see every script that the servers receive, alone or in a pipeline, from
// callers with and without a context that may end, from one and from many.
func TestHooksSeeEverything(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, h redis.Hook) ([]*redistest.Server, redis.UniversalClient){
		"single": func(t *testing.T, h redis.Hook) ([]*redistest.Server, redis.UniversalClient) {
			s := redistest.Start(t)
			rdb := redistest.User(t, s.Client(t))
			rdb.AddHook(h)
			return []*redistest.Server{s}, rdb
		},
		"cluster": func(t *testing.T, h redis.Hook) ([]*redistest.Server, redis.UniversalClient) {
			cl := redistest.StartCluster(t, 3)
			rdb := redistest.User(t, cl.Client(t)).(*redis.ClusterClient)
			rdb.OnNewNode(func(node *redis.Client) { node.AddHook(h) })
			return cl.Nodes, rdb
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen scriptsSeen
			servers, rdb := start(t, &seen)
			executed := func() (n int64) {
				for _, s := range servers {
					stats := s.CommandStats(t)
					n += stats["evalsha"] + stats["eval"]
				}
				return n
			}
			before := executed()
			c := latchkey.New(rdb)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pairs := func(ctx context.Context, name string) {
				l := rlock.New(c, name)
				for range 20 {
					h, err := l.Lock(ctx)
					if assert.NoError(t, err) {
						assert.NoError(t, h.Unlock(ctx))
					}
				}
			}
			pairs(context.Background(), "alone")
			pairs(ctx, "alone")
			require.Equal(t, executed()-before, seen.Load())
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() { pairs(ctx, fmt.Sprint("many:", i)) })
				wg.Go(func() { pairs(context.Background(), "one") })
			}
			wg.Wait()
			require.NoError(t, c.Close())
			require.Equal(t, executed()-before, seen.Load())
			require.Greater(t, seen.Load(), int64(80))
		})
	}
}
