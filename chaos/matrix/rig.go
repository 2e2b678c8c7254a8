package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

const (
	// shortLease is that of holds, where nothing takes longer that they shall
	// outlive.
	shortLease = 2 * time.Second
	recheck    = 500 * time.Millisecond
)

// others is how many servers there are besides, for red-locks: with the one under
// fault they are three.
const others = 2

// A rig is the stage of one row: the server under fault, the way of each side to
// it, and the clients.
type rig struct {
	testing.TB
	ctx context.Context
	row string
	// lease is how long holds last that are not renewed.
	lease time.Duration
	tag   string // in all names, where they must lie in one slot

	server *redistest.Server // under fault; nil where there are several
	admin  redis.UniversalClient
	ways   [2]*redistest.Proxy // of a and b
	a, b   side

	connect func(way int, opts ...func(*redis.Options)) redis.UniversalClient
	options []latchkey.Option
	proof   atomic.Int64 // how often the fault happened
	stable  []*redistest.Server

	several  *redistest.Sentinels
	gone     *redistest.Server // the primary that failover has taken away
	cluster  *redistest.Cluster
	replicas []*redistest.Server
}

// single sets up one server with a proxy before it for each side.
func (r *rig) single(args ...string) {
	r.server = redistest.Start(r, args...)
	r.admin = r.server.Client(r)
	for i := range r.ways {
		r.ways[i] = redistest.NewProxy(r, r.server.Addr)
	}
	r.connect = func(way int, opts ...func(*redis.Options)) redis.UniversalClient {
		at := func(o *redis.Options) { o.Addr, o.PoolSize = r.ways[way].Addr(), 60 }
		return r.server.Client(r, append([]func(*redis.Options){at}, opts...)...)
	}
}

// sides makes both sides, once connect says how.
func (r *rig) sides(opts ...func(*redis.Options)) {
	r.a, r.b = r.side(0, opts...), r.side(1, opts...)
}

// side makes one side, whose clients are closed at the end of the row.
func (r *rig) side(way int, opts ...func(*redis.Options)) side {
	rdb := r.connect(way, opts...)
	s := side{rdb: rdb, client: r.client(rdb)}
	for _, o := range r.stable {
		s.others = append(s.others, r.client(o.Client(r)))
	}
	return s
}

func newClient(r *rig, rdb redis.UniversalClient) *latchkey.Client {
	opts := []latchkey.Option{latchkey.WithWatchdogTimeout(r.lease), latchkey.WithRecheck(recheck)}
	return latchkey.New(rdb, append(opts, r.options...)...)
}

func (r *rig) client(rdb redis.UniversalClient) *latchkey.Client {
	c := newClient(r, rdb)
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// name returns a name that nobody else has in this run.
func (r *rig) name(column byte, role string) string {
	return fmt.Sprintf("%s%s-%c-%s", r.tag, r.row, column, role)
}

// happened notes that the fault did happen, so often.
func (r *rig) happened(n int) { r.proof.Add(int64(n)) }

// every calls f at once and again and again, for a second.
func (r *rig) every(pause time.Duration, f func()) {
	end := time.Now().Add(time.Second)
	for {
		f()
		left := time.Until(end)
		if left <= 0 {
			return
		}
		r.sleep(min(pause, left))
	}
}

func (r *rig) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
}

// do runs an administrator's command.
func (r *rig) do(args ...any) {
	if err := r.admin.Do(r.ctx, args...).Err(); err != nil {
		r.Errorf("%v: %v", args, err)
	}
}

// kill ends connections of a type, and counts them as proof.
func (r *rig) kill(kind string) {
	n, err := r.admin.Do(r.ctx, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Int()
	if err == nil {
		r.happened(n)
	}
}

// leftovers returns the keys with that in their names that have no business being
// there once all is given back: those that do not expire, and those of holders.
func (r *rig) leftovers(part string) []string {
	var left []string
	for _, key := range r.keys("*" + part + "*") {
		if strings.Contains(key, "redisson_lock_token") {
			continue
		}
		kind := r.admin.Type(r.ctx, key).Val()
		ttl := r.admin.PTTL(r.ctx, key).Val()
		if ttl == -1 || kind == "hash" && !strings.Contains(key, "latchkey_queue") {
			left = append(left, fmt.Sprintf("%s (%s, %v)", key, kind, ttl))
		}
	}
	return left
}

// keys returns the names of keys, of all masters.
func (r *rig) keys(pattern string) []string {
	var keys []string
	if c, ok := r.admin.(*redis.ClusterClient); ok {
		found := make(chan []string, 16)
		_ = c.ForEachMaster(r.ctx, func(ctx context.Context, m *redis.Client) error {
			found <- m.Keys(ctx, pattern).Val()
			return nil
		})
		close(found)
		for some := range found {
			keys = append(keys, some...)
		}
		return keys
	}
	return r.admin.Keys(r.ctx, pattern).Val()
}
