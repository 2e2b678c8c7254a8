package faults_test

import (
	"context"
	"fmt"
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

const (
	// faultNever is a recheck that no test waits for: what happens before it is
	// not its doing.
	faultNever = time.Minute
	// heartbeat is the pub/sub connection's.
	heartbeat = 2 * time.Second
)

// An asking is a go-redis hook that counts the requests of a lock that are under way.
type asking struct{ now, most atomic.Int64 }

func (*asking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *asking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer a.count(cmd)()
		return next(ctx, cmd)
	}
}

func (a *asking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer a.count(cmds...)()
		return next(ctx, cmds)
	}
}

// count counts the requests among cmds until done is called.
func (a *asking) count(cmds ...redis.Cmder) (done func()) {
	n := int64(0)
	for _, cmd := range cmds {
		if args := cmd.Args(); cmd.Name() == "evalsha" && args[1] == lua.RLockAcquire.Arg() {
			n++
		}
	}
	now := a.now.Add(n)
	for most := a.most.Load(); now > most && !a.most.CompareAndSwap(most, now); most = a.most.Load() {
	}
	return func() { a.now.Add(-n) }
}

// waiting starts a Lock of name on c and returns when the call sleeps: it has
// asked, subscribed, and asked again.
func (r *faultRig) waiting(t testing.TB, c *latchkey.Client, name string) <-chan locktest.Outcome {
	t.Helper()
	before := r.ran(t)
	res := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, name).Lock(context.Background()) })
	redistest.Until(t, "the waiter to sleep", func() bool { return r.ran(t) >= before+2 })
	return res
}

// ran returns how many scripts have run to the end.
func (r *faultRig) ran(t testing.TB) int64 {
	t.Helper()
	return r.servers[0].CommandStats(t)["evalsha"]
}

// granted returns the hold of res, which must come within d.
func granted(t testing.TB, res <-chan locktest.Outcome, d time.Duration) *latchkey.Hold {
	t.Helper()
	got := locktest.Within(t, res, d)
	require.NoError(t, got.Err)
	return got.Hold
}

func TestFaultSubscriberKilled(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0, latchkey.WithRecheck(faultNever))
	for range 10 {
		h := r.holder(t, "a")
		res := r.waiting(t, c, "a")
		was := c.Stats().Resubscribes
		require.Equal(t, []string{"1"}, r.servers[0].Do(t, "CLIENT", "KILL", "TYPE", "PUBSUB"))
		require.NoError(t, h.Unlock(t.Context()))
		mine := granted(t, res, time.Second)
		require.NoError(t, mine.Unlock(t.Context()))
		redistest.Until(t, "the new connection", func() bool { return c.Stats().Resubscribes > was })
	}
	require.Zero(t, c.Stats().Rechecked)
	r.quiet(t, c)
	r.free(t, "a")
}

// The connection for wake-ups goes silent: nothing arrives on it any more, and
// nobody closes it.
func TestFaultSubscriberDeaf(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0, latchkey.WithRecheck(faultNever))
	h := r.holder(t, "a")
	res := r.waiting(t, c, "a")
	p := r.proxies[0]
	subscribes := p.Commands("subscribe")
	deaf := func() bool { return p.Commands("subscribe") == subscribes }
	var lost atomic.Int64
	p.OnCommand(func(args []string) redistest.Act {
		if args[0] == "ping" && deaf() {
			return redistest.Drop
		}
		return redistest.Pass
	})
	p.OnMessage(func(kind, _, _ string) bool {
		if !deaf() {
			return true
		}
		lost.Add(1)
		return false
	})
	require.NoError(t, h.Unlock(t.Context()))
	mine := granted(t, res, 2*heartbeat+4*faultNoise)
	require.EqualValues(t, 1, lost.Load(), "no message was lost")
	require.EqualValues(t, 1, r.count(redistest.Drop), "no heartbeat was lost")
	require.NoError(t, mine.Unlock(t.Context()))
	require.Zero(t, c.Stats().Rechecked)
	require.EqualValues(t, 1, c.Stats().Resubscribes)
	r.quiet(t, c)
	r.free(t, "a")
}

func TestFaultMessageLost(t *testing.T) {
	t.Parallel()
	const recheck = 600 * time.Millisecond
	r := newFaultRig(t)
	var missed atomic.Int64
	c := r.client(t, 0, latchkey.WithRecheck(recheck), latchkey.WithObserver(latchkey.Observer{
		HintMissed: func(kind, name string) {
			if kind == "rlock" && name == "a" {
				missed.Add(1)
			}
		},
	}))
	h := r.holder(t, "a")
	res := r.waiting(t, c, "a")
	var lost atomic.Int64
	r.proxies[0].OnMessage(func(kind, _, _ string) bool { return kind != "message" || lost.Add(1) > 1 })
	require.NoError(t, h.Unlock(t.Context()))
	mine := granted(t, res, recheck+faultNoise)
	require.EqualValues(t, 1, lost.Load(), "no message was lost")
	require.EqualValues(t, 1, c.Stats().Rechecked)
	require.EqualValues(t, 1, missed.Load())
	require.NoError(t, mine.Unlock(t.Context()))
	r.quiet(t, c)
	r.free(t, "a")
}

// The lock becomes free without a message: it is deleted by hand, or its holder
// crashes.
func TestFaultFreedWithoutMessage(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	t.Run("deleted", func(t *testing.T) {
		const recheck = 400 * time.Millisecond
		c := r.client(t, 0, latchkey.WithRecheck(recheck))
		end := heldElsewhere(t, r)
		res := r.waiting(t, c, "a")
		end()
		require.NoError(t, granted(t, res, recheck+faultNoise).Unlock(t.Context()))
		require.EqualValues(t, 1, c.Stats().Rechecked)
		r.quiet(t, c)
	})
	t.Run("expired", func(t *testing.T) {
		c := r.client(t, 0, latchkey.WithRecheck(faultNever))
		heldElsewhere(t, r)
		require.NoError(t, r.direct.PExpire(t.Context(), "a", 500*time.Millisecond).Err())
		start := time.Now()
		res := r.waiting(t, c, "a")
		require.NoError(t, granted(t, res, 500*time.Millisecond+faultNoise).Unlock(t.Context()))
		require.Greater(t, time.Since(start), 400*time.Millisecond)
		require.Zero(t, c.Stats().Rechecked, "the end of a lease is no surprise")
		r.quiet(t, c)
	})
	r.free(t, "a")
}

// The lock is freed between the request to subscribe and its confirmation.
func TestFaultFreedWhileSubscribing(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	p := r.proxies[0]
	t.Run("confirmed late", func(t *testing.T) {
		const late = 300 * time.Millisecond
		c := r.client(t, 0, latchkey.WithRecheck(faultNever))
		h := r.holder(t, "a")
		p.HoldFor(late)
		p.OnCommand(func(args []string) redistest.Act {
			if args[0] == "subscribe" {
				return redistest.Late
			}
			return redistest.Pass
		})
		res := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(context.Background()) })
		redistest.Until(t, "the request to be held", func() bool { return r.count(redistest.Late) == 1 })
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, granted(t, res, late+faultNoise).Unlock(t.Context()))
		p.OnCommand(nil)
		r.quiet(t, c)
	})
	t.Run("never confirmed", func(t *testing.T) {
		c := r.client(t, 0, latchkey.WithRecheck(faultNever))
		h := r.holder(t, "a")
		var lost atomic.Int64
		p.OnMessage(func(string, string, string) bool { lost.Add(1); return false })
		res := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(context.Background()) })
		redistest.Until(t, "the confirmation to be lost", func() bool { return lost.Load() == 2 })
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, granted(t, res, time.Second+faultNoise).Unlock(t.Context()))
		p.OnMessage(nil)
		redistest.Until(t, "the waiter to be gone", func() bool { return c.Stats().Waiting == 0 })
	})
	r.free(t, "a")
}

// Without rights to channels, nothing can be published or subscribed to. Locks
// still work.
func TestFaultChannelDenied(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	r.servers[0].Do(t, "ACL", "SETUSER", "worker", "on", ">pw", "~*", "resetchannels", "+@all")
	type denial struct {
		channel string
		err     error
	}
	denials := make(chan denial, 100)
	connect := func() *redis.Client {
		rdb := r.dial(t, redis.UniversalOptions{Username: "worker", Password: "pw"})
		return rdb.(*redis.Client) //nolint:errcheck // it is one
	}
	require.True(t, redis.IsPermissionError(connect().Publish(t.Context(), "redisson_lock__channel:{a}", "0").Err()))
	c := locktest.NewClient(t, connect(), latchkey.WithRecheck(faultNever), latchkey.WithObserver(latchkey.Observer{
		ChannelDenied: func(channel string, err error) { denials <- denial{channel, err} },
	}))
	other := rlock.New(locktest.NewClient(t, connect()), "a")
	for range 3 {
		h, err := other.Lock(t.Context())
		require.NoError(t, err)
		var waiters []<-chan locktest.Outcome
		for range 3 {
			waiters = append(waiters, locktest.Later(func() (*latchkey.Hold, error) {
				h, err := rlock.New(c, "a").Lock(context.Background())
				if err == nil {
					err = h.Unlock(context.Background())
				}
				return h, err
			}))
		}
		redistest.Until(t, "the waiters", func() bool { return c.Stats().Waiting == 3 })
		require.NoError(t, h.Unlock(t.Context()))
		for _, w := range waiters {
			granted(t, w, 3*(250*time.Millisecond+faultNoise))
		}
	}
	for _, channel := range []string{`redisson_lock__channel:\{a\}:[A-Z2-7]{26}`, `redisson_lock__channel:\{a\}`} {
		d := <-denials
		require.Regexp(t, "^"+channel+"$", d.channel)
		require.ErrorIs(t, d.err, latchkey.ErrChannelDenied)
		require.True(t, redis.IsPermissionError(d.err), "%v", d.err)
	}
	require.Empty(t, denials, "each is told once")
	require.Positive(t, r.commands("subscribe"))
	r.quiet(t, c)
	r.free(t, "a")
}

func TestFaultPolling(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0, latchkey.WithPubSub(latchkey.Polling), latchkey.WithRecheck(faultNever))
	h := r.holder(t, "a")
	before := r.commands("evalsha")
	res := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(context.Background()) })
	redistest.Until(t, "some asking", func() bool { return r.commands("evalsha") >= before+8 })
	start := time.Now()
	redistest.Until(t, "more asking", func() bool { return r.commands("evalsha") >= before+12 })
	require.Greater(t, time.Since(start), 3*150*time.Millisecond, "it asks too often")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, granted(t, res, 250*time.Millisecond+faultNoise).Unlock(t.Context()))
	require.Zero(t, r.commands("subscribe"))
	r.quiet(t, c)
	r.free(t, "a")
}

// Not parallel: it uses the whole machine.
func TestFaultTenThousandWaiters(t *testing.T) {
	const waiters, handovers = 10_000, 500
	r := newFaultRig(t)
	p := r.proxies[0]
	rdb := r.dial(t, redis.UniversalOptions{})
	var asks asking
	rdb.AddHook(&asks)
	c := locktest.NewClient(t, rdb, latchkey.WithRecheck(faultNever))
	h := r.holder(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var sec section
	var ended atomic.Int64
	full := make(chan struct{})
	for range waiters {
		all.Go(func() {
			h, err := rlock.New(c, "a").Lock(ctx)
			if err != nil {
				if !errorIs(err, context.Canceled) {
					sec.fail(err)
				}
				ended.Add(1)
				return
			}
			last := false
			sec.pass(func() { last = sec.passes.Load() == handovers })
			if last {
				close(full)
				<-ctx.Done()
			}
			sec.fail(h.Unlock(ctx))
		})
	}
	redistest.Until(t, "all to wait", func() bool { return c.Stats().Waiting == waiters })
	redistest.Until(t, "the subscription", func() bool {
		return r.servers[0].Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}")[1] == "1"
	})
	require.Equal(t, 2, c.Stats().Subscriptions, "wake-ups, and what the client is given")

	before := p.Commands("")
	start := time.Now()
	require.NoError(t, h.Unlock(t.Context()))
	select {
	case <-full:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "stuck", "after %d of %d", sec.passes.Load(), handovers)
	}
	asked := p.Commands("") - before
	t.Logf("%d hand-overs in %v by %d commands over %d connections", handovers, time.Since(start), asked, p.Conns())
	// In memory, so that a few commands serve a slice of many hand-overs; no more
	// than one for each where the machine is so slow that a slice has but one.
	require.LessOrEqual(t, asked, int64(handovers), "commands")
	// Beside it there are unlocks: one, and on a busy machine those before it whose
	// replies nobody has read yet.
	require.EqualValues(t, 1, asks.most.Load(), "waiters that ask at once")
	listen := strings.Join(r.servers[0].Do(t, "CLIENT", "LIST", "TYPE", "PUBSUB"), "\n")
	require.Equal(t, 1, strings.Count(listen, "id="), "connections that listen:\n%s", listen)
	require.EqualValues(t, 1, p.Commands("subscribe"))
	require.Equal(t, 2, c.Stats().Subscriptions)

	cancelled := time.Now()
	cancel()
	all.Wait()
	require.Less(t, time.Since(cancelled), 3*time.Second)
	require.NoError(t, sec.err())
	require.Zero(t, sec.clashes.Load())
	require.EqualValues(t, waiters, ended.Load()+sec.passes.Load(), "some were given it as they gave up")
	require.Zero(t, c.Stats().Rechecked)
	r.quiet(t, c)
	r.free(t, "a")
}

// Anybody may publish to the channel of a lock. A message costs at most one
// request, however many waiters there are; a flood costs far less for each
// message; and none grants anything.
func TestFaultForgedMessages(t *testing.T) {
	t.Parallel()
	const waiters, messages = 100, 5000
	r := newFaultRig(t)
	c := r.client(t, 0, latchkey.WithRecheck(faultNever))
	h := r.holder(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var grants atomic.Int64
	for range waiters {
		all.Go(func() {
			if h, err := rlock.New(c, "a").Lock(ctx); err == nil {
				grants.Add(1)
				_ = h.Unlock(ctx)
			}
		})
	}
	redistest.Until(t, "all to wait", func() bool { return c.Stats().Waiting == waiters })
	redistest.Until(t, "the head to sleep", func() bool { return r.ran(t) == 3 }) // the hold, and its questions before and after it subscribed
	var heard atomic.Int64
	r.proxies[0].OnMessage(func(string, string, string) bool { heard.Add(1); return true })
	const drops = 50
	before := r.commands("evalsha")
	for i := range drops {
		require.NoError(t, r.direct.Publish(t.Context(), "redisson_lock__channel:{a}", "0").Err())
		redistest.Until(t, "the question", func() bool { return r.commands("evalsha") > before+int64(i) })
	}
	require.EqualValues(t, before+drops, r.commands("evalsha"), "more than one waiter asks")
	heard.Store(0)
	before = r.commands("evalsha")
	for i := range messages / 100 {
		_, err := r.direct.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for j := range 100 {
				pipe.Publish(t.Context(), "redisson_lock__channel:{a}", fmt.Sprint("forged ", i, j))
			}
			return nil
		})
		require.NoError(t, err)
	}
	redistest.Until(t, "the flood to arrive", func() bool { return heard.Load() == messages })
	asked := r.commands("evalsha") - before
	t.Logf("%d messages, %d questions", messages, asked)
	require.LessOrEqual(t, asked, int64(messages/2))
	require.Zero(t, grants.Load())
	require.Equal(t, map[string]string{h.HolderID(): "1"}, r.fields(t, "a"))

	require.NoError(t, h.Unlock(t.Context()))
	redistest.Until(t, "all to have had it", func() bool { return grants.Load() == waiters })
	all.Wait()
	r.quiet(t, c)
	r.free(t, "a")
}
