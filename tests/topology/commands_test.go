package topology

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A counter is a go-redis hook that counts commands by name: all of them, and
// those without a reply.
type counter struct {
	mu         sync.Mutex
	all, quiet map[string]int
}

func (c *counter) add(cmd redis.Cmder, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[cmd.Name()]++
	var reply redis.Error
	if err != nil && !errors.As(err, &reply) {
		c.quiet[cmd.Name()]++
	}
}

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.add(cmd, err)
		return err
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.add(cmd, cmd.Err())
		}
		return err
	}
}

// Every script goes through the caller's go-redis client: its hook sees as many
// scripts as the server runs, for one goroutine, for waiters, and for a crowd.
func TestHooksSeeEveryScript(t *testing.T) {
	kinds := maps.Clone(objects)
	kinds["read lock"] = byLock(func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).ReadLock() })
	kinds["multi-lock"] = byLock(func(c *latchkey.Client, name string) latchkey.Locker {
		return multilock.New(rlock.New(c, name+"1"), rlock.New(c, name+"2"))
	})
	kinds["latch"] = func(ctx context.Context, c *latchkey.Client, name string) (taken, error) {
		l := countdownlatch.New(c, name)
		_, err := l.TrySetCount(ctx, 1)
		return taken{release: func(ctx context.Context) error { return errors.Join(l.CountDown(ctx), l.Await(ctx)) }}, err
	}
	for kind, take := range kinds {
		for _, inline := range []bool{false, true} {
			t.Run(kind+" inline="+strconv.FormatBool(inline), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				seen := &counter{all: map[string]int{}, quiet: map[string]int{}}
				var clients [2]*latchkey.Client
				for i := range clients {
					rdb := redistest.User(t, s.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = inline }))
					rdb.AddHook(seen)
					clients[i] = newClient(t, rdb)
				}
				var wg sync.WaitGroup
				errs := make(chan error, 100)
				for i := range 40 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
						defer cancel()
						for round := range redistest.Many(5, 2) {
							got, err := take(ctx, clients[i%2], "a"+strconv.Itoa((i+round)%10))
							if err == nil {
								err = got.release(ctx)
							}
							if err != nil {
								errs <- err
								return
							}
						}
					})
				}
				wg.Wait()
				for _, c := range clients {
					require.NoError(t, c.Close()) // nothing goes on behind it
				}
				require.Empty(t, errs)
				stats := s.Do(t, "INFO", "commandstats")[0]
				ran := 0
				for _, name := range []string{"evalsha", "eval", "evalsha_ro", "eval_ro", "wait", "script"} {
					n := calls(stats, name)
					// One that is given up on a busy machine may not have been sent.
					require.LessOrEqual(t, n, seen.all[name], name)
					require.GreaterOrEqual(t, n, seen.all[name]-seen.quiet[name], name)
					ran += n
				}
				require.Greater(t, ran, 40)
			})
		}
	}
}

// calls returns how often a command was run, according to INFO commandstats.
func calls(stats, name string) int {
	_, rest, ok := strings.Cut(stats, "cmdstat_"+name+":calls=")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number)
	return n
}
