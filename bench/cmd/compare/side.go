package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const lease = 30 * time.Second

// A slot is what one goroutine takes and gives back, over and over.
type slot interface {
	take(ctx context.Context) error
	give(ctx context.Context) error
}

// An opened is a side in a process: a client of its own.
type opened struct {
	slot    func(name string) slot
	waiting func() int // how many wait; nil where the side cannot tell
	close   func() error
}

// The sides, in the order in which they have their turns.
var sides = []struct {
	name string
	open func(ctx context.Context, t *task) (*opened, error) // nil: not in this process
}{
	{"floor-set", openFloorSet},
	{"floor-blpop", openFloorBLPop},
	{"latchkey", openLatchkey},
	{"latchkey-off", openLatchkey},    // without hand-over
	{"latchkey-fenced", openLatchkey}, // with fencing tokens
	{"latchkey-hook", openLatchkey},   // with a hook of go-redis that sees each command
	{"latchkey-one", openLatchkey},    // on one server, where others have a cluster
	{"redsync", openRedsync},
	{"redislock", openRedislock},
	{"rueidislock", openRueidislock},
	{"etcd", openEtcd},
	{"redisson", nil}, // a JVM
}

func sideNames() (names []string) {
	for _, s := range sides {
		names = append(names, s.name)
	}
	return names
}

func isSide(name string) bool { return slices.Contains(sideNames(), name) }

// open opens the side of the task in this process.
func open(ctx context.Context, t *task) (*opened, error) {
	for _, s := range sides {
		if s.name == t.Side && s.open != nil {
			return s.open(ctx, t)
		}
	}
	return nil, fmt.Errorf("side %q does not run in this process", t.Side)
}

// poolSize is that of all sides on go-redis but those that block in Redis: what
// two cores get by default, whatever the machine has.
const poolSize = 20

// client returns a go-redis client with ContextTimeoutEnabled, as the README recommends,
// whose connections are counted, unless the server counts what they send.
func (t *task) client(pool int) redis.UniversalClient {
	dial := t.wire.dial
	if t.bare() {
		dial = nil
	}
	if t.Cluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: t.Addrs, PoolSize: pool, Dialer: dial, ContextTimeoutEnabled: true})
	}
	return redis.NewClient(&redis.Options{Addr: t.Addrs[0], PoolSize: pool, Dialer: dial, ContextTimeoutEnabled: true})
}

// bare reports whether connections are as the libraries make them: where it is speed
// that is measured, of floors and latchkey, of which it is known what their scripts call.
func (t *task) bare() bool {
	return (t.Work == "loop" || t.Work == "wake") && (strings.HasPrefix(t.Side, "floor-") || strings.HasPrefix(t.Side, "latchkey"))
}

// compareAndDelete is the release of a lock made of SET NX PX.
var compareAndDelete = redis.NewScript(
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

type floorSet struct {
	rdb       redis.UniversalClient
	keys      []string
	key, mine string
}

// openFloorSet is the least a lock costs: SET NX PX, and compare-and-delete by
// EVALSHA. It does not wait.
func openFloorSet(_ context.Context, t *task) (*opened, error) {
	rdb := t.client(poolSize)
	return &opened{
		slot: func(name string) slot {
			return &floorSet{rdb, []string{name}, name, "0123456789abcdef0123456789abcdef"}
		},
		close: rdb.Close,
	}, nil
}

func (f *floorSet) take(ctx context.Context) error {
	ok, err := f.rdb.SetNX(ctx, f.key, f.mine, lease).Result()
	if err == nil && !ok {
		err = fmt.Errorf("%s is taken", f.key)
	}
	return err
}

func (f *floorSet) give(ctx context.Context) error {
	return compareAndDelete.Run(ctx, f.rdb, f.keys, f.mine).Err()
}

type floorBLPop struct {
	rdb redis.UniversalClient
	key string
}

// openFloorBLPop is the least a hand-over costs: tokens in a list, which are
// taken by BLPOP and given back by RPUSH. A crash loses a token.
func openFloorBLPop(ctx context.Context, t *task) (*opened, error) {
	rdb := t.client(t.Goroutines + poolSize)
	if t.Process == 0 {
		for range max(t.Limit, 1) {
			if err := rdb.RPush(ctx, t.name(0), "token").Err(); err != nil {
				return nil, err
			}
		}
	}
	return &opened{
		slot:  func(name string) slot { return &floorBLPop{rdb, name} },
		close: rdb.Close,
	}, nil
}

func (f *floorBLPop) take(ctx context.Context) error {
	for {
		// BLPOP does not hear of the end of ctx.
		err := f.rdb.BLPop(context.WithoutCancel(ctx), 5*time.Second, f.key).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (f *floorBLPop) give(ctx context.Context) error {
	return f.rdb.RPush(ctx, f.key, "token").Err()
}
