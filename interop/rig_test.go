package interop

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// fastWatchdog is the lease of a lock without one, for clients on either side
// whose renewals and deaths a test waits for.
const fastWatchdog = 1500 * time.Millisecond

// A rig is one Redis with real Redisson on it.
type rig struct {
	version version
	nodes   []*redistest.Server   // one, or the masters of a cluster
	rdb     redis.UniversalClient // for the test's own use
	mode    latchkey.PubSubMode   // of Go clients
	jvm     *jvm
	j       *redisson // with Redisson's defaults
	fast    *redisson // with fastWatchdog
}

// newRig starts a JVM for a server, or a cluster of several.
func newRig(t *testing.T, v version, mode latchkey.PubSubMode, nodes ...*redistest.Server) *rig {
	t.Helper()
	r := &rig{version: v, nodes: nodes, mode: mode, jvm: startJVM(t, v)}
	r.rdb = r.dial(t, nil)
	r.j = r.jvm.open(t, r.address())
	r.fast = r.jvm.open(t, r.address(), fastOption)
	return r
}

// fastOption gives a Redisson client fastWatchdog.
var fastOption = fmt.Sprint("watchdog=", fastWatchdog.Milliseconds())

// address is the option of a Redisson client that says where Redis is.
func (r *rig) address() string {
	if len(r.nodes) == 1 {
		return "single=" + r.nodes[0].Addr
	}
	return "cluster=" + strings.Join(r.addresses(), ",")
}

func (r *rig) addresses() []string {
	var addrs []string
	for _, s := range r.nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// A dialer opens a connection to a server, in a way of its own.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// connect makes a connection to a server, or to the cluster of several.
func connect(addrs []string, d dialer) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, PoolSize: 64, Dialer: d})
}

// dial makes one to those of the rig, for the length of the test.
func (r *rig) dial(t *testing.T, d dialer) redis.UniversalClient {
	t.Helper()
	rdb := connect(r.addresses(), d)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// client returns a latchkey client on a connection of its own.
func (r *rig) client(t *testing.T, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(r.dial(t, nil), append([]latchkey.Option{latchkey.WithPubSub(r.mode)}, opts...)...)
	t.Cleanup(func() {
		if !t.Failed() {
			redistest.Until(t, "the last subscription to end", func() bool { return c.Stats().Subscriptions == 0 })
			require.Zero(t, c.Stats().Waiting, "Waiting")
		}
		require.NoError(t, c.Close())
	})
	return c
}

// fastClient returns one with fastWatchdog.
func (r *rig) fastClient(t *testing.T) *latchkey.Client {
	t.Helper()
	return r.client(t, latchkey.WithWatchdogTimeout(fastWatchdog))
}

// mortal returns a latchkey client with fastWatchdog, and how to cut it off from
// Redis for good.
func (r *rig) mortal(t *testing.T) (c *latchkey.Client, kill func()) {
	t.Helper()
	proxies := map[string]*redistest.Proxy{}
	for _, s := range r.nodes {
		proxies[s.Addr] = redistest.NewProxy(t, s.Addr)
	}
	rdb := r.dial(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, proxies[addr].Addr())
	})
	c = latchkey.New(rdb, latchkey.WithPubSub(r.mode), latchkey.WithWatchdogTimeout(fastWatchdog),
		latchkey.WithUnlockTimeout(10*time.Millisecond))
	t.Cleanup(func() { _ = c.Close() }) // it cannot give anything back
	return c, func() {
		for _, p := range proxies {
			p.Mute(true)
		}
	}
}

var names atomic.Int64

// name returns a name that nobody else uses. At the end of the test no key may be
// left under it that does not expire, but those in keep, whose %s stands for the
// name. (Redis channels are looked at for each Go client: when a tryLock of Java's
// runs out of time while it subscribes, it may stay subscribed for good.)
func (r *rig) name(t *testing.T, keep ...string) string {
	t.Helper()
	base := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
	name := fmt.Sprintf("%s-%d.", base, names.Add(1))
	for i := range keep {
		keep[i] = strings.ReplaceAll(keep[i], "%s", name)
	}
	t.Cleanup(func() {
		if t.Failed() {
			r.dump(t, name)
			return // what is left is the least of it
		}
		var left []string
		for range 500 {
			if left = r.left(t, name, keep); len(left) == 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Empty(t, left, "left behind")
	})
	return name
}

func (r *rig) left(t *testing.T, name string, keep []string) []string {
	t.Helper()
	var left []string
	for _, s := range r.nodes {
		for _, key := range s.Do(t, "KEYS", "*"+name+"*") {
			if s.Do(t, "PTTL", key)[0] == "-1" && !slices.Contains(keep, key) {
				left = append(left, key)
			}
		}
	}
	return left
}

// channels returns the Redis channels with that name in theirs which somebody
// is subscribed to.
func (r *rig) channels(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, s := range r.nodes {
		found = append(found, s.Do(t, "PUBSUB", "CHANNELS", "*"+name+"*")...)
		found = append(found, s.Do(t, "PUBSUB", "SHARDCHANNELS", "*"+name+"*")...)
	}
	return found
}

// dump logs what Redis has of an object, and what the JVM's threads are doing.
func (r *rig) dump(t *testing.T, name string) {
	t.Helper()
	t.Logf("subscribed: %v", r.channels(t, name))
	for _, s := range r.nodes {
		for _, key := range s.Do(t, "KEYS", "*"+name+"*") {
			value := ""
			switch s.Do(t, "TYPE", key)[0] {
			case "hash":
				value = fmt.Sprint(s.Do(t, "HGETALL", key))
			case "list":
				value = fmt.Sprint(s.Do(t, "LRANGE", key, "0", "-1"))
			case "zset":
				value = fmt.Sprint(s.Do(t, "ZRANGE", key, "0", "-1", "WITHSCORES"))
			case "string":
				value = fmt.Sprint(s.Do(t, "GET", key))
			}
			t.Logf("%s: %s, for %s ms", key, value, s.Do(t, "PTTL", key)[0])
		}
	}
	_ = r.jvm.cmd.Process.Signal(syscall.SIGQUIT) // a JVM says what its threads do, and goes on
	time.Sleep(time.Second)
}

// subscribed waits until somebody listens for the object of that name.
func (r *rig) subscribed(t *testing.T, name string) {
	t.Helper()
	redistest.Until(t, "a subscription", func() bool { return len(r.channels(t, name)) > 0 })
}

// exists reports whether there is an object of that name.
func (r *rig) exists(t *testing.T, name string) bool {
	t.Helper()
	n, err := r.rdb.Exists(context.Background(), name).Result()
	require.NoError(t, err)
	return n == 1
}

// soon returns a context for a call that may wait a little, but not for ever.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A grant is an acquire of a Go client under way.
type grant struct {
	done chan struct{} // closed when it has ended
	at   time.Time     // when it did
	hold *latchkey.Hold
	err  error
}

// lockAsync starts to acquire l.
func lockAsync(ctx context.Context, l latchkey.Locker, opts ...latchkey.LockOption) *grant {
	g := &grant{done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.hold, g.err = l.Lock(ctx, opts...)
		g.at = time.Now()
	}()
	return g
}

// wait returns the Hold, which must come within d.
func (g *grant) wait(t *testing.T, d time.Duration) *latchkey.Hold {
	t.Helper()
	select {
	case <-g.done:
	case <-time.After(d):
		require.Fail(t, "Go has not got the lock", "for %v", d)
	}
	require.NoError(t, g.err)
	return g.hold
}

// pending fails the test when the acquire has ended.
func (g *grant) pending(t *testing.T) {
	t.Helper()
	select {
	case <-g.done:
		require.Fail(t, "Go should be waiting", "%v", g.err)
	default:
	}
}
