package faults_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// faultNoise is what a busy machine may add to a bound.
const faultNoise = 250 * time.Millisecond

// faultRead is a read timeout of go-redis that a test can wait for.
const faultRead = 200 * time.Millisecond

// A faultRig is Redis, one server or a cluster, with a proxy in front of each
// node.
type faultRig struct {
	servers []*redistest.Server
	proxies []*redistest.Proxy
	// dial makes a connection of go-redis's through the proxies, for the library.
	dial   func(t testing.TB, o redis.UniversalOptions) redis.UniversalClient
	direct redis.UniversalClient // around the proxies
}

// faultScripts are loaded into every server, so that each run is one EVALSHA.
var faultScripts = []*lua.Script{
	lua.RLockAcquire, lua.RLockRelease, lua.RLockPass, lua.RLockRenew, lua.RLockForce, lua.RLockState,
}

func newFaultRig(t testing.TB, args ...string) *faultRig {
	t.Helper()
	s := redistest.Start(t, args...)
	p := redistest.NewProxy(t, s.Addr)
	r := &faultRig{servers: []*redistest.Server{s}, proxies: []*redistest.Proxy{p}, direct: s.Client(t)}
	r.dial = func(t testing.TB, o redis.UniversalOptions) redis.UniversalClient {
		o.Addrs = []string{p.Addr()}
		c := redis.NewClient(redistest.AsUser(&o).Simple())
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	r.load(t)
	return r
}

func newFaultCluster(t testing.TB) *faultRig {
	t.Helper()
	c := redistest.StartCluster(t, 3)
	r := &faultRig{servers: c.Nodes, direct: c.Client(t)}
	to := map[string]string{}
	var addrs []string
	for _, s := range c.Nodes {
		p := redistest.NewProxy(t, s.Addr)
		r.proxies = append(r.proxies, p)
		to[s.Addr] = p.Addr()
		addrs = append(addrs, s.Addr)
	}
	r.dial = func(t testing.TB, o redis.UniversalOptions) redis.UniversalClient {
		o.Addrs = addrs
		co := redistest.AsUser(&o).Cluster()
		// The nodes tell their own addresses; the proxies stand before them.
		co.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, to[addr])
		}
		cl := redis.NewClusterClient(co)
		t.Cleanup(func() { _ = cl.Close() })
		return cl
	}
	r.load(t)
	return r
}

func (r *faultRig) load(t testing.TB) {
	for _, s := range r.servers {
		for _, script := range faultScripts {
			s.Do(t, "SCRIPT", "LOAD", script.Source)
		}
	}
}

// client returns a client through the proxies; read is go-redis's read timeout,
// 0 for its default.
func (r *faultRig) client(t testing.TB, read time.Duration, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	return locktest.NewClient(t, r.dial(t, redis.UniversalOptions{ReadTimeout: read}), opts...)
}

// on applies act to the next n runs of script.
func (r *faultRig) on(n int64, script *lua.Script, act redistest.Act) {
	var left atomic.Int64
	left.Store(n)
	for _, p := range r.proxies {
		p.OnCommand(func(args []string) redistest.Act {
			if locktest.Runs(args, script) && left.Add(-1) >= 0 {
				return act
			}
			return redistest.Pass
		})
	}
}

// heal ends what on began.
func (r *faultRig) heal() {
	for _, p := range r.proxies {
		p.OnCommand(nil)
		p.Release()
	}
}

func (r *faultRig) holdFor(d time.Duration) {
	for _, p := range r.proxies {
		p.HoldFor(d)
	}
}

// count returns how often act was done, over all proxies.
func (r *faultRig) count(act redistest.Act) (n int64) {
	for _, p := range r.proxies {
		n += p.Count(act)
	}
	return n
}

// commands returns how many commands of that name reached the proxies.
func (r *faultRig) commands(name string) (n int64) {
	for _, p := range r.proxies {
		n += p.Commands(name)
	}
	return n
}

// keys returns every key but the fencing token counters.
func (r *faultRig) keys(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, s := range r.servers {
		for _, k := range s.Do(t, "KEYS", "*") {
			if !strings.HasPrefix(k, "redisson_lock_token:") {
				out = append(out, k)
			}
		}
	}
	return out
}

// fields returns the fields of the lock in Redis.
func (r *faultRig) fields(t testing.TB, name string) map[string]string {
	t.Helper()
	m, err := r.direct.HGetAll(t.Context(), name).Result()
	require.NoError(t, err)
	return m
}

// gone waits until no key is left.
func (r *faultRig) gone(t testing.TB, within time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.keys(t)) == 0 }, within, 5*time.Millisecond, "keys are left")
}

// free checks that nothing is stuck: another client takes the lock at once, and
// nothing is left behind after it has released the lock.
func (r *faultRig) free(t testing.TB, names ...string) {
	t.Helper()
	c := latchkey.New(redistest.User(t, r.direct))
	defer c.Close()
	for _, name := range names {
		start := time.Now()
		h, err := rlock.New(c, name).TryLock(context.Background())
		require.NoError(t, err, "another client does not get %q", name)
		require.NoError(t, h.Unlock(context.Background()))
		require.Less(t, time.Since(start), time.Second)
	}
	require.Empty(t, r.keys(t))
}

// holder holds name on a client of its own, which does not use the proxies.
func (r *faultRig) holder(t testing.TB, name string, opts ...latchkey.Option) *latchkey.Hold {
	t.Helper()
	h, err := rlock.New(locktest.NewClient(t, r.direct, opts...), name).Lock(context.Background())
	require.NoError(t, err)
	return h
}

// quiet checks that c has no request under way and no subscription.
func (r *faultRig) quiet(t testing.TB, c *latchkey.Client) {
	t.Helper()
	redistest.Until(t, "the client to settle", func() bool {
		st := c.Stats()
		return st.Held == 0 && st.Waiting == 0 && st.Subscriptions == 0
	})
	for _, s := range r.servers {
		redistest.Until(t, "the channels to go", func() bool { return len(s.Do(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

// maybeApplied returns MaybeApplied of an error.
func maybeApplied(t testing.TB, err error) bool {
	t.Helper()
	var e *latchkey.Error
	require.ErrorAs(t, err, &e)
	return e.MaybeApplied()
}

// A section counts the callers in a critical section, and how often there were
// two.
type section struct {
	in, clashes, passes atomic.Int64
	mu                  sync.Mutex
	errs                []error
}

func (s *section) pass(work func()) {
	if s.in.Add(1) != 1 {
		s.clashes.Add(1)
	}
	work()
	s.passes.Add(1)
	s.in.Add(-1)
}

func (s *section) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.errs = append(s.errs, err)
	s.mu.Unlock()
}

func (s *section) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// errorIs is errors.Is for places where require must not be called.
func errorIs(err, target error) bool { return errors.Is(err, target) }

// errorCode reports whether err is an error reply of Redis with that code.
func errorCode(err error, code string) bool {
	return err != nil && redis.HasErrorPrefix(err, code)
}
