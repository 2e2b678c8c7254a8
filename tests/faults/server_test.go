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
	"github.com/latchkey-go/latchkey/rlock"
)

// traffic takes and releases locks by several clients at once, until stop is
// closed. An error, two holders at once, or a token that does not grow fails
// the test.
func (r *faultRig) traffic(t *testing.T, stop <-chan struct{}, clients, workers, names int, opts ...latchkey.Option) (passes int64) {
	t.Helper()
	secs := make([]section, names)
	tokens := make([]atomic.Int64, names)
	var all sync.WaitGroup
	var cs []*latchkey.Client
	for range clients {
		c := r.client(t, 0, opts...)
		cs = append(cs, c)
		for w := range workers {
			all.Go(func() {
				for i := w; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					n := i % names
					h, err := rlock.New(c, fmt.Sprint("t", n), rlock.Fenced()).Lock(context.Background())
					if err != nil {
						secs[n].fail(err)
						continue
					}
					secs[n].pass(func() {
						if last := tokens[n].Swap(h.Token()); last >= h.Token() {
							secs[n].fail(fmt.Errorf("token %d after %d", h.Token(), last))
						}
						if h.Context().Err() != nil {
							secs[n].fail(fmt.Errorf("lost: %w", context.Cause(h.Context())))
						}
					})
					secs[n].fail(h.Unlock(context.Background()))
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	<-stop
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "stuck")
	}
	for n := range secs {
		require.NoError(t, secs[n].err())
		require.Zero(t, secs[n].clashes.Load(), "two holders at once")
		require.Positive(t, secs[n].passes.Load(), "t%d was never taken", n)
		passes += secs[n].passes.Load()
	}
	for _, c := range cs {
		r.quiet(t, c)
		require.Zero(t, c.Stats().Losses)
	}
	return passes
}

// until calls f again and again until enough returns true, for half a minute at
// most, and then closes stop.
func until(pause time.Duration, enough func() bool, f func()) (stop chan struct{}) {
	stop = make(chan struct{})
	go func() {
		defer close(stop)
		for end := time.Now().Add(30 * time.Second); !enough() && time.Now().Before(end); time.Sleep(pause) {
			f()
		}
	}()
	return stop
}

func TestFaultScriptFlush(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	enough := func() bool { return r.commands("eval") > 100 }
	stop := until(5*time.Millisecond, enough, func() { r.servers[0].Do(t, "SCRIPT", "FLUSH") })
	passes := r.traffic(t, stop, 2, 4, 3)
	texts := r.commands("eval")
	t.Logf("%d passes, %d scripts sent anew", passes, texts)
	require.True(t, enough(), "the scripts were not missing often")
	r.free(t, "t0", "t1", "t2")
}

func TestFaultConnectionsKilled(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	var killed atomic.Int64
	done := int64(0)
	enough := func() bool { return killed.Load() > 100 }
	stop := until(20*time.Millisecond, enough, func() {
		// On a slow machine nothing would be done between one massacre and the next.
		if n := r.commands("evalsha"); n < done+8 {
			return
		}
		done = r.commands("evalsha")
		n := r.servers[0].Do(t, "CLIENT", "KILL", "TYPE", "NORMAL")
		if n[0] != "0" {
			killed.Add(1)
		}
	})
	passes := r.traffic(t, stop, 3, 4, 3)
	t.Logf("%d passes, %d massacres", passes, killed.Load())
	require.True(t, enough())
	r.gone(t, time.Second)
	r.free(t, "t0", "t1", "t2")
}

// Redis restarts without its data. Holders learn of it with their next renewal,
// and waiters get the lock.
func TestFaultRestartEmpty(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	const lease = 3 * time.Second
	lost := make(chan string, 10)
	c := r.client(t, 0, latchkey.WithWatchdogTimeout(lease), latchkey.WithObserver(latchkey.Observer{
		Lost: func(_, name string, _ time.Duration, _ latchkey.LossReason) { lost <- name },
	}))
	other := r.client(t, 0, latchkey.WithRecheck(faultNever))
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	res := r.waiting(t, other, "a")
	require.Empty(t, h.Lost())

	r.servers[0].Restart(t)
	restarted := time.Now()
	mine := granted(t, res, 2*time.Second)
	select {
	case <-h.Lost():
		// A renewal is due every third of the lease, and a tenth after one that
		// failed; the trust window would end later.
		require.Less(t, time.Since(restarted), lease/3+lease/10+faultNoise)
	case <-time.After(lease):
		require.Fail(t, "not told")
	}
	require.Equal(t, "a", <-lost)
	require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrLeaseLost)
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrLeaseLost)
	require.ErrorIs(t, err, latchkey.ErrNotHeld)
	require.Equal(t, map[string]string{mine.HolderID(): "1"}, r.fields(t, "a"), "a successor is spared")
	require.NoError(t, mine.Unlock(t.Context()))
	require.EqualValues(t, 1, c.Stats().Losses)
	r.quiet(t, c)
	r.quiet(t, other)
	r.free(t, "a")
}

func TestFaultRestartIdle(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0)
	l := rlock.New(c, "a", rlock.Fenced())
	var last int64
	for range 4 {
		start := time.Now()
		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
		require.Greater(t, h.Token(), last, "tokens grow although the counter is lost")
		last = h.Token()
		require.NoError(t, h.Unlock(t.Context()))
		r.servers[0].Kill()
		r.servers[0].Restart(t)
	}
	r.free(t, "a")
}

// A server at its memory limit: nothing can be taken, and everything can be
// given back.
func TestFaultOutOfMemory(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	const lease = 600 * time.Millisecond
	c := r.client(t, 0, latchkey.WithWatchdogTimeout(lease))
	l := rlock.New(c, "a", rlock.Fenced())
	h, err := l.Lock(t.Context(), latchkey.Label("worker"))
	require.NoError(t, err)
	nested, err := l.Lock(h.Context())
	require.NoError(t, err)
	lingering, err := rlock.New(c, "lingering").Lock(t.Context(), latchkey.HoldAtLeast(time.Second))
	require.NoError(t, err)

	r.servers[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.True(t, redis.IsOOMError(r.direct.Set(t.Context(), "x", "x", 0).Err()), "there is memory")
	for name, ctx := range map[string]context.Context{"b": t.Context(), "a": h.Context()} {
		for _, opts := range [][]rlock.Option{nil, {rlock.Fenced()}} {
			start := time.Now()
			got, err := rlock.New(c, name, opts...).Lock(ctx)
			require.Nil(t, got)
			require.ErrorContains(t, err, "OOM command not allowed")
			require.False(t, maybeApplied(t, err))
			require.Less(t, time.Since(start), faultNoise, "it will not go away by itself")
		}
	}
	require.Equal(t, "2", r.fields(t, "a")[h.HolderID()])
	renewals := c.Stats().Renewals
	redistest.Until(t, "renewals", func() bool { return c.Stats().Renewals >= renewals+3 })
	require.Zero(t, c.Stats().Losses)
	require.NoError(t, h.Context().Err())
	require.NoError(t, h.Extend(t.Context(), 2*lease))

	require.NoError(t, nested.Unlock(t.Context()))
	require.Equal(t, map[string]string{h.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, lingering.Unlock(t.Context()))
	r.gone(t, time.Second+faultNoise)
	r.servers[0].Do(t, "CONFIG", "SET", "maxmemory", "0")
	r.free(t, "a", "b", "lingering")
}

func TestFaultWrongType(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0)
	held, err := rlock.New(c, "held").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.direct.Del(t.Context(), "held").Err())
	for _, name := range []string{"a", "held"} {
		require.NoError(t, r.direct.Set(t.Context(), name, "data", 0).Err())
	}
	ctx := latchkey.WithHolder(t.Context())
	holder, _ := latchkey.HolderFrom(ctx)
	for _, opts := range [][]rlock.Option{nil, {rlock.Fenced()}, {rlock.NonReentrant()}, {rlock.Spin(rlock.Backoff{})}} {
		l := rlock.New(c, "a", opts...)
		for method, call := range map[string]func() error{
			"Lock":        func() error { _, err := l.Lock(ctx); return err },
			"TryLock":     func() error { _, err := l.TryLock(ctx); return err },
			"TryLockWait": func() error { _, err := l.TryLock(ctx, latchkey.Wait(time.Second)); return err },
			"ForceUnlock": func() error { _, err := l.ForceUnlock(ctx); return err },
			"IsLocked":    func() error { _, err := l.IsLocked(ctx); return err },
			"IsHeldBy":    func() error { _, err := l.IsHeldBy(ctx, holder); return err },
			"HoldCount":   func() error { _, err := l.HoldCount(ctx); return err },
			"TTL":         func() error { _, err := l.TTL(ctx); return err },
			"Token":       func() error { _, err := l.Token(ctx); return err },
		} {
			start := time.Now()
			err := call()
			require.ErrorIs(t, err, latchkey.ErrKeyConflict, method)
			require.False(t, maybeApplied(t, err), method)
			require.Less(t, time.Since(start), faultNoise, method)
		}
	}
	err = held.Unlock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrKeyConflict)
	require.False(t, maybeApplied(t, err))
	for _, name := range []string{"a", "held"} {
		require.Equal(t, "data", r.direct.GetDel(t.Context(), name).Val(), "somebody else's data is spared")
	}
	r.quiet(t, c)
	r.free(t, "a", "held")
}

// A fencing token counter with another content is a key conflict and is not
// changed. The lock is not taken. A hold whose counter was broken can be
// released, but not granted to another caller.
func TestFaultCounterIsNoNumber(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c, other := r.client(t, 0), r.client(t, 0)
	for kind, spoil := range map[string]func(key string) error{
		"string": func(key string) error { return r.direct.Set(t.Context(), key, "data", 0).Err() },
		"list":   func(key string) error { return r.direct.RPush(t.Context(), key, "data").Err() },
	} {
		l, counter := rlock.New(c, kind, rlock.Fenced()), "redisson_lock_token:{"+kind+"}"
		held, err := l.Lock(t.Context())
		require.NoError(t, err)
		waiting, stop := context.WithCancel(t.Context())
		next := rlock.New(other, kind, rlock.Fenced()).LockAsync(waiting)
		require.Eventually(t, func() bool {
			return r.direct.ZCard(t.Context(), "latchkey_next:{"+kind+"}").Val() == 1
		}, faultNoise, time.Millisecond)
		require.NoError(t, r.direct.Del(t.Context(), counter).Err())
		require.NoError(t, spoil(counter))
		before := r.direct.Dump(t.Context(), counter).Val()
		require.NoError(t, held.Unlock(t.Context()), kind)
		require.ErrorIs(t, (<-next).Err, latchkey.ErrKeyConflict, kind)
		stop()
		for method, call := range map[string]func() error{
			"Lock":    func() error { _, err := l.Lock(t.Context()); return err },
			"TryLock": func() error { _, err := l.TryLock(t.Context()); return err },
			"Token":   func() error { _, err := l.Token(t.Context()); return err },
		} {
			err := call()
			require.ErrorIs(t, err, latchkey.ErrKeyConflict, "%s of a %s", method, kind)
			require.False(t, maybeApplied(t, err), method)
		}
		require.Equal(t, before, r.direct.Dump(t.Context(), counter).Val())
		require.Zero(t, r.direct.Exists(t.Context(), kind).Val(), "the lock of a %s", kind)
	}
}

// A server becomes a replica. Holders and callers survive a short time of that.
// A long one ends in an error that tells the reason.
func TestFaultReadOnly(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	s := r.servers[0]
	replica := func(on bool) {
		if on {
			s.Do(t, "REPLICAOF", "127.0.0.1", "1")
			require.True(t, redis.IsReadOnlyError(r.direct.Set(context.Background(), "x", "x", 0).Err()))
			return
		}
		s.Do(t, "REPLICAOF", "NO", "ONE")
	}
	const lease = 1500 * time.Millisecond
	var failed atomic.Int64
	c := r.client(t, 0, latchkey.WithWatchdogTimeout(lease), latchkey.WithObserver(latchkey.Observer{
		RenewFailed: func(string, string, error) { failed.Add(1) },
	}))
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	replica(true)
	asking := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "b").Lock(t.Context()) })
	redistest.Until(t, "a renewal to fail", func() bool { return failed.Load() > 0 })
	replica(false)
	require.NoError(t, granted(t, asking, time.Second).Unlock(t.Context()))
	renewed := r.fields(t, "a")
	require.Equal(t, map[string]string{h.HolderID(): "1"}, renewed)
	time.Sleep(lease) // past the lease as it was
	require.NoError(t, h.Context().Err())
	require.NoError(t, h.Unlock(t.Context()))

	replica(true)
	start := time.Now()
	_, err = rlock.New(c, "b").Lock(t.Context())
	require.True(t, redis.IsReadOnlyError(err), "%v", err)
	require.False(t, maybeApplied(t, err))
	require.Less(t, time.Since(start), 4*time.Second)
	replica(false)
	r.quiet(t, c)
	r.free(t, "a", "b")
}

func TestFaultLoading(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t, "--rdbcompression", "no")
	s := r.servers[0]
	slow, keys, value := []string{"--key-load-delay", "2000"}, 3000, ""
	if redistest.Since(7, 0) {
		slow = append(slow, "--loading-process-events-interval-bytes", "1024")
	} else { // it answers after every two megabytes, and lets nobody change how slow it is
		keys, value = 2000, strings.Repeat("x", 32<<10)
	}
	_, err := r.direct.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for i := range keys {
			pipe.Set(t.Context(), fmt.Sprint("k", i), value, 0)
		}
		return nil
	})
	require.NoError(t, err)
	s.Do(t, "SAVE")
	c := r.client(t, 0)
	s.Kill()
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		s.Restart(t, slow...)
	}()
	redistest.Until(t, "the server to load", func() bool { return redis.IsLoadingError(r.direct.Ping(t.Context()).Err()) })
	asked := r.commands("evalsha")
	asking := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(t.Context()) })
	redistest.Until(t, "some asking", func() bool { return r.commands("evalsha") >= asked+2 })
	if redistest.Since(7, 0) {
		s.Do(t, "CONFIG", "SET", "key-load-delay", "0")
	}
	got := locktest.Within(t, asking, 10*time.Second)
	<-restarted
	h, err := got.Hold, got.Err
	if err != nil {
		// A machine so slow that it took longer than a caller is kept.
		require.True(t, redis.IsLoadingError(err), "%v", err)
		h, err = rlock.New(c, "a").Lock(t.Context())
	}
	require.NoError(t, err)
	require.NoError(t, r.direct.DBSize(t.Context()).Err())
	require.NoError(t, h.Unlock(t.Context()))
	s.Do(t, "FLUSHALL")
	r.free(t, "a")
}

func TestFaultBusy(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t, "--lua-time-limit", "50")
	c := r.client(t, 0)
	h, err := rlock.New(c, "held").Lock(t.Context())
	require.NoError(t, err)
	endless := make(chan error, 1)
	go func() { endless <- r.direct.Eval(context.Background(), "while true do end", nil).Err() }()
	redistest.Until(t, "the server to be busy", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return errorCode(r.direct.Ping(ctx).Err(), "BUSY")
	})
	asking := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(t.Context()) })
	unlocked := h.UnlockAsync(t.Context())
	sent := r.commands("evalsha")
	redistest.Until(t, "some asking", func() bool { return r.commands("evalsha") >= sent+4 })
	require.Empty(t, asking)
	require.NoError(t, r.direct.ScriptKill(t.Context()).Err())
	require.Error(t, <-endless)
	require.NoError(t, granted(t, asking, time.Second).Unlock(t.Context()))
	require.NoError(t, <-unlocked)
	r.quiet(t, c)
	r.free(t, "a", "held")
}

func TestFaultClientPause(t *testing.T) {
	for _, mode := range []string{"ALL", "WRITE"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const pause = 800 * time.Millisecond
			r := newFaultRig(t)
			c := r.client(t, 0)
			held, err := rlock.New(c, "held").Lock(t.Context())
			require.NoError(t, err)
			r.servers[0].Do(t, "CLIENT", "PAUSE", fmt.Sprint(pause.Milliseconds()), mode)
			paused := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err = rlock.New(c, "a").Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(paused), 200*time.Millisecond+prompt)
			require.NoError(t, held.Unlock(t.Context()))
			h, err := rlock.New(c, "b").Lock(t.Context())
			require.NoError(t, err)
			require.Greater(t, time.Since(paused), pause*9/10, "there was no pause")
			require.Less(t, time.Since(paused), pause+2*faultNoise)
			require.NoError(t, h.Unlock(t.Context()))
			require.Empty(t, r.fields(t, "a"), "a ghost")
			r.quiet(t, c)
			r.free(t, "a", "b", "held")
		})
	}
}

// The lock is taken away. Its holder learns of it with its next renewal, a
// waiter gets the lock at once, and the former holder cannot take it back.
func TestFaultForcedUnlock(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	const lease = 1500 * time.Millisecond
	c := r.client(t, 0, latchkey.WithWatchdogTimeout(lease))
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	nested, err := rlock.New(c, "a").Lock(h.Context())
	require.NoError(t, err)
	res := r.waiting(t, locktest.NewClient(t, r.direct, latchkey.WithRecheck(faultNever)), "a")
	freed, err := rlock.New(locktest.NewClient(t, r.direct), "a").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	forced := time.Now()
	mine := granted(t, res, time.Second)
	for _, h := range []*latchkey.Hold{nested, h} {
		select {
		case <-h.Lost():
		case <-time.After(time.Until(forced.Add(lease/3 + lease/20 + faultNoise))):
			require.Fail(t, "not told")
		}
		require.ErrorIs(t, context.Cause(h.Context()), latchkey.ErrLeaseLost)
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
	}
	require.Equal(t, map[string]string{mine.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, mine.Unlock(t.Context()))
	freed, err = rlock.New(c, "a").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.False(t, freed)
	r.quiet(t, c)
	r.free(t, "a")
}

// If the lock was taken away and nobody has noticed yet, Unlock reports it and
// spares the successor.
func TestFaultUnlockAfterForcedUnlock(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 0)
	h, err := rlock.New(c, "a").Lock(t.Context())
	require.NoError(t, err)
	_, err = rlock.New(c, "a").ForceUnlock(t.Context())
	require.NoError(t, err)
	successor := r.holder(t, "a")
	require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
	require.Error(t, h.Context().Err())
	<-h.Lost()
	require.Equal(t, map[string]string{successor.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, successor.Unlock(t.Context()))
	r.free(t, "a")
}

// A process that comes back with its former id does not own what it held
// before.
func TestFaultReusedID(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	before := locktest.NewClient(t, r.direct, latchkey.WithID("pod-1"))
	held := map[string]*latchkey.Hold{}
	for i := range 20 {
		h, err := rlock.New(before, fmt.Sprint("a", i)).Lock(latchkey.WithHolder(t.Context()))
		require.NoError(t, err)
		held[h.Name()] = h
	}
	after := locktest.NewClient(t, r.direct, latchkey.WithID("pod-1"))
	ctx := latchkey.WithHolder(t.Context())
	for name, h := range held {
		require.Contains(t, h.HolderID(), "pod-1:")
		for _, ctx := range []context.Context{t.Context(), ctx, h.Context()} {
			_, err := rlock.New(after, name).TryLock(ctx)
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		}
		by, err := rlock.New(after, name).IsHeldBy(t.Context(), h.Holder())
		require.NoError(t, err)
		require.False(t, by)
		require.ErrorIs(t, rlock.New(after, name).Unlock(h.Context()), latchkey.ErrNotHeld)
	}
	require.NoError(t, after.Close())
	for name, h := range held {
		require.Equal(t, map[string]string{h.HolderID(): "1"}, r.fields(t, name), "Close gives back its own only")
		require.NoError(t, h.Unlock(t.Context()))
	}
	r.free(t, "a0", "a19")
}

// An Unlock by the holder in the context that got no reply may be called again,
// like the Unlock of a Hold.
func TestFaultUnlockByHolderAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := locktest.NewClient(t, env.Redis)
		l := rlock.New(c, "a")
		ctx := latchkey.WithHolder(t.Context())
		mustLockCtx := func() {
			_, err := l.Lock(ctx)
			require.NoError(t, err)
		}
		mustLockCtx()
		env.Partition()
		for range 2 {
			require.True(t, maybeApplied(t, l.Unlock(ctx)))
			time.Sleep(3 * time.Second)
		}
		env.Heal()
		require.NoError(t, l.Unlock(ctx))
		require.False(t, env.Mini.Exists("a"))
		require.ErrorIs(t, l.Unlock(ctx), latchkey.ErrNotHeld, "it has been given back")

		mustLockCtx()
		require.NoError(t, l.Unlock(ctx))
		require.ErrorIs(t, l.Unlock(ctx), latchkey.ErrNotHeld)
	})
}
