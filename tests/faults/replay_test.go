package faults_test

import (
	"context"
	"fmt"
	"strconv"
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

// lostReplies are the ways to lose the reply to a script that has run. A held
// reply comes after go-redis's read timeout.
var lostReplies = []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.Swallow, redistest.Hold}

// TestFaultReplay runs every scenario on one server and on a cluster.
func TestFaultReplay(t *testing.T) {
	scenarios := []struct {
		name string
		run  func(t *testing.T, r *faultRig)
	}{
		{"reply of acquire lost", replyOfAcquireLost},
		{"reply of release lost", replyOfReleaseLost},
		{"nested replies lost", nestedRepliesLost},
		{"duplicate delivery", duplicateDelivery},
		{"abandoned acquire", abandonedAcquire},
		{"late acquire", lateAcquire},
	}
	for _, rig := range []struct {
		name  string
		start func(t testing.TB) *faultRig
	}{
		{"single", func(t testing.TB) *faultRig { return newFaultRig(t) }},
		{"cluster", newFaultCluster},
	} {
		t.Run(rig.name, func(t *testing.T) {
			t.Parallel()
			r := rig.start(t)
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					r.heal()
					r.holdFor(0)
					s.run(t, r)
				})
			}
		})
	}
}

func replyOfAcquireLost(t *testing.T, r *faultRig) {
	r.holdFor(2 * faultRead)
	c := r.client(t, faultRead)
	var mons []*redistest.Monitor
	for _, s := range r.servers {
		mons = append(mons, s.Monitor(t))
	}
	tokensTaken := func(name string) (n int) {
		for _, m := range mons {
			for _, l := range m.Lines() {
				if l.Script() && l.Name() == "set" && l.Args[1] == "redisson_lock_token:{"+name+"}" {
					n++
				}
			}
		}
		return n
	}
	for _, act := range lostReplies {
		for _, try := range []bool{false, true} {
			name := fmt.Sprintf("%v-%v", act, try)
			l := rlock.New(c, name, rlock.Fenced())
			acquire := l.Lock
			if try {
				acquire = l.TryLock
			}
			before := r.count(act)
			times := int64(1)
			if act == redistest.LoseRST || act == redistest.LoseFIN {
				times = 3 // one more than go-redis and we together would send blindly
			}
			r.on(times, lua.RLockAcquire, act)
			h, err := acquire(t.Context())
			require.NoError(t, err, name)
			require.Equal(t, before+times, r.count(act), "the fault did not happen")
			require.Equal(t, map[string]string{h.HolderID(): "1"}, r.fields(t, name), name)
			token, err := r.direct.Get(t.Context(), "redisson_lock_token:{"+name+"}").Int64()
			require.NoError(t, err)
			require.Equal(t, h.Token(), token)
			require.Equal(t, 1, tokensTaken(name), "%s: tokens", name)

			require.NoError(t, h.Unlock(t.Context()))
			require.Empty(t, r.fields(t, name))
			require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
			again, err := l.TryLock(t.Context())
			require.NoError(t, err)
			require.Greater(t, again.Token(), h.Token())
			require.NoError(t, again.Unlock(t.Context()))
		}
	}
	r.heal()
	require.Empty(t, r.keys(t))
	require.Zero(t, c.Stats().Undone)
}

func replyOfReleaseLost(t *testing.T, r *faultRig) {
	r.holdFor(2 * faultRead)
	c := r.client(t, faultRead)
	for _, act := range lostReplies {
		name := act.String()
		l := rlock.New(c, name)
		h, err := l.Lock(t.Context(), latchkey.Label("worker"))
		require.NoError(t, err)
		before := r.count(act)
		r.on(1, lua.RLockRelease, act)
		require.NoError(t, h.Unlock(t.Context()), name)
		require.Equal(t, before+1, r.count(act), "the fault did not happen")
		require.Empty(t, r.keys(t))
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrNotHeld)
		require.NotErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
		select {
		case <-h.Lost():
			require.Fail(t, "what was given back is not lost")
		default:
		}
		r.free(t, name)
	}
	require.Zero(t, c.Stats().Losses)
}

// A release whose reply is lost is repeated after another holder has taken the
// lock. That holder keeps it.
func TestFaultRepeatedReleaseSparesSuccessor(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, faultRead)
	l := rlock.New(c, "a")
	h, err := l.Lock(t.Context())
	require.NoError(t, err)

	r.on(1, lua.RLockRelease, redistest.Swallow)
	done := h.UnlockAsync(t.Context())
	redistest.Until(t, "the release to have run", func() bool { return r.count(redistest.Swallow) == 1 })
	successor := r.holder(t, "a")
	require.NoError(t, <-done)
	require.Equal(t, map[string]string{successor.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, successor.Unlock(t.Context()))
	r.free(t, "a")
}

func nestedRepliesLost(t *testing.T, r *faultRig) {
	r.holdFor(2 * faultRead)
	c := r.client(t, faultRead)
	for _, act := range lostReplies {
		name := "nested-" + act.String()
		l := rlock.New(c, name, rlock.Fenced())
		ctx := t.Context()
		before := r.count(act)
		var holds []*latchkey.Hold
		var last int64
		for n := 1; n <= 3; n++ {
			r.on(1, lua.RLockAcquire, act)
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			require.Equal(t, map[string]string{h.HolderID(): strconv.Itoa(n)}, r.fields(t, name))
			require.Greater(t, h.Token(), last)
			last = h.Token()
			holds = append(holds, h)
			ctx = h.Context()
		}
		for n := 2; n >= 0; n-- {
			r.on(1, lua.RLockRelease, act)
			require.NoError(t, holds[n].Unlock(ctx))
			want := map[string]string{}
			if n > 0 {
				want[holds[0].HolderID()] = strconv.Itoa(n)
			}
			require.Equal(t, want, r.fields(t, name))
		}
		require.EqualValues(t, before+6, r.count(act), "the faults did not happen")
		r.free(t, name)
	}
}

// A request that arrives twice takes effect once.
func duplicateDelivery(t *testing.T, r *faultRig) {
	c := r.client(t, 0, latchkey.WithWatchdogTimeout(900*time.Millisecond))
	l := rlock.New(c, "a", rlock.Fenced())
	r.on(1<<30, lua.RLockAcquire, redistest.Twice)
	h1, err := l.Lock(t.Context(), latchkey.Label("me"))
	require.NoError(t, err)
	h2, err := l.Lock(h1.Context())
	require.NoError(t, err)
	require.Equal(t, "2", r.fields(t, "a")[h1.HolderID()])
	require.Greater(t, h2.Token(), h1.Token())

	r.on(1<<30, lua.RLockRenew, redistest.Twice)
	renewed := c.Stats().Renewals
	redistest.Until(t, "renewals", func() bool { // the first one counted may have been under way
		return c.Stats().Renewals >= renewed+2 && r.count(redistest.Twice) >= 4
	})
	require.Equal(t, "2", r.fields(t, "a")[h1.HolderID()])

	r.on(1<<30, lua.RLockRelease, redistest.Twice)
	require.NoError(t, h2.Unlock(t.Context()))
	require.Equal(t, map[string]string{h1.HolderID(): "1"}, r.fields(t, "a"))
	// What the second run of the last release finds cannot be told from a lock
	// that somebody has taken away, so it may say so; it does no harm.
	if err := h1.Unlock(t.Context()); err != nil {
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
	}
	require.Empty(t, r.keys(t))
	require.GreaterOrEqual(t, r.count(redistest.Twice), int64(6))
	r.heal()
	r.free(t, "a")
}

// A release is delayed in the network until its holder has the lock again, and
// must not end that hold.
func TestFaultLateReleaseSparesNextHoldOfItsHolder(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, 100*time.Millisecond, latchkey.WithUnlockTimeout(250*time.Millisecond))
	ctx := latchkey.WithHolder(t.Context())
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	// The first request is late, the others never arrive.
	var n atomic.Int64
	r.proxies[0].OnCommand(func(args []string) redistest.Act {
		switch {
		case !locktest.Runs(args, lua.RLockRelease):
			return redistest.Pass
		case n.Add(1) == 1:
			return redistest.Late
		}
		return redistest.RefuseRST
	})
	err = h.Unlock(ctx)
	require.Error(t, err)
	require.True(t, maybeApplied(t, err))
	require.EqualValues(t, 1, r.count(redistest.Late))
	require.Positive(t, r.count(redistest.RefuseRST))
	r.proxies[0].OnCommand(nil)

	// The next acquire is not sent while the late one could still act.
	begun := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
	next := locktest.Within(t, begun, 5*time.Second).Hold
	require.NotNil(t, next)
	passed := r.count(redistest.Pass)
	r.heal() // now the late one arrives
	redistest.Until(t, "the late request to run", func() bool { return r.count(redistest.Pass) > passed })
	require.Equal(t, map[string]string{next.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, next.Unlock(ctx))
	r.free(t, "a")
}

// A Lock that ended without a reply leaves nothing behind: here the script has
// run, and its reply is never delivered.
func abandonedAcquire(t *testing.T, r *faultRig) {
	redistest.HoldsCommands(t)
	c := r.client(t, 0)
	undone := c.Stats().Undone
	before := r.count(redistest.Hold)
	for i, end := range []error{context.Canceled, context.DeadlineExceeded} {
		name := fmt.Sprint("a", i)
		r.on(1, lua.RLockAcquire, redistest.Hold)
		ctx, cancel := context.WithCancel(t.Context())
		if end == context.DeadlineExceeded {
			ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		}
		res := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, name).Lock(ctx) })
		redistest.Until(t, "the script to have run", func() bool { return r.count(redistest.Hold) == before+int64(i+1) })
		require.Len(t, r.keys(t), 1)
		if end == context.Canceled {
			cancel()
		}
		got := locktest.Within(t, res, 4*time.Second)
		cancel()
		require.ErrorIs(t, got.Err, end)
		require.Nil(t, got.Hold)
		require.True(t, maybeApplied(t, got.Err))
		r.gone(t, time.Second)
		undone++
		redistest.Until(t, "the undo to be counted", func() bool { return c.Stats().Undone == undone })
		r.heal()
		r.free(t, name)
	}
}

// The request itself is late: it reaches Redis after its caller has gone. With
// a deadline on the context it changes nothing. After a cancellation it is
// taken back.
func lateAcquire(t *testing.T, r *faultRig) {
	redistest.HoldsCommands(t)
	c := r.client(t, 0)
	l := rlock.New(c, "a")
	before := r.count(redistest.Late)
	for i, end := range []error{context.DeadlineExceeded, context.Canceled} {
		sent := r.commands("evalsha")
		r.on(1, lua.RLockAcquire, redistest.Late)
		ctx, cancel := context.WithCancel(t.Context())
		if end == context.DeadlineExceeded {
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		}
		res := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(ctx) })
		redistest.Until(t, "the request to be held", func() bool { return r.count(redistest.Late) == before+int64(i+1) })
		if end == context.Canceled {
			cancel()
		}
		got := locktest.Within(t, res, 4*time.Second)
		cancel()
		require.ErrorIs(t, got.Err, end)
		// "Nothing to undo" has been heard by now, and must not have been
		// believed.
		redistest.Until(t, "an undo that found nothing", func() bool { return r.commands("evalsha") >= sent+2 })
		passed := r.count(redistest.Pass)
		r.heal()
		redistest.Until(t, "the late request to run", func() bool { return r.count(redistest.Pass) > passed })
		if end == context.DeadlineExceeded {
			require.Empty(t, r.keys(t))
			require.Zero(t, c.Stats().Undone)
			continue
		}
		r.gone(t, 2*time.Second)
	}
	r.free(t, "a")
}

// One goroutine releases while another of the same holder acquires. Whatever
// the network does to their requests, a caller that was told that it holds the
// lock does.
func TestFaultLockDuringUnlockOfOneHolder(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	r.holdFor(faultRead)
	c := r.client(t, 0)
	ctx := latchkey.WithHolder(t.Context())
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	r.on(1, lua.RLockRelease, redistest.Late)
	unlocked := h.UnlockAsync(ctx)
	redistest.Until(t, "the release to be held", func() bool { return r.count(redistest.Late) == 1 })
	next, err := l.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, <-unlocked)
	require.Equal(t, map[string]string{next.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, next.Unlock(ctx))
	r.free(t, "a")
}

// The same if the next hold began as a re-entry into the hold that is released
// and continues under its holder.
//
// The Unlock waits for the reply to the re-entry, for faultRead, before it may
// send its request. The unlock timeout is therefore longer than faultRead.
func TestFaultLateReleaseSparesReentry(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := r.client(t, faultRead, latchkey.WithUnlockTimeout(10*faultRead))
	l := rlock.New(c, "a")
	h, err := l.Lock(t.Context())
	require.NoError(t, err)
	var acquires, releases atomic.Int64
	r.proxies[0].OnCommand(func(args []string) redistest.Act {
		switch {
		case locktest.Runs(args, lua.RLockAcquire) && acquires.Add(1) == 1:
			return redistest.Drop
		case locktest.Runs(args, lua.RLockRelease) && releases.Add(1) == 1:
			return redistest.Late
		case locktest.Runs(args, lua.RLockRelease):
			return redistest.RefuseRST
		}
		return redistest.Pass
	})
	reentry := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(context.WithoutCancel(h.Context())) })
	redistest.Until(t, "the request to be lost", func() bool { return r.count(redistest.Drop) == 1 })
	err = h.Unlock(t.Context()) // while that one waits for its answer
	require.True(t, maybeApplied(t, err))
	require.EqualValues(t, 1, r.count(redistest.Late))
	next := granted(t, reentry, 10*time.Second)
	passed := r.count(redistest.Pass)
	r.heal() // now the late one arrives
	redistest.Until(t, "the late request to run", func() bool { return r.count(redistest.Pass) > passed })
	require.Equal(t, map[string]string{next.HolderID(): "1"}, r.fields(t, "a"))
	require.NoError(t, next.Unlock(t.Context()))
}

// A frozen server resumes and runs two hundred requests whose callers have
// gone.
func TestFaultFrozenServerMakesNoGhosts(t *testing.T) {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		t.Run(end.Error(), func(t *testing.T) {
			t.Parallel()
			const n = 200
			r := newFaultRig(t)
			rdb := r.dial(t, redis.UniversalOptions{ReadTimeout: faultRead, PoolSize: n})
			c := locktest.NewClient(t, rdb)
			// Connections for all of them, so that each request is on its way.
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					h, err := rlock.New(c, fmt.Sprint("warm", i)).Lock(t.Context())
					if err == nil {
						err = h.Unlock(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.Empty(t, r.keys(t))
			mon := r.servers[0].Monitor(t)
			writes := func() (n int) {
				for _, l := range mon.Lines() {
					if l.Script() && l.Name() == "hset" {
						n++
					}
				}
				return n
			}

			r.servers[0].Freeze()
			var late, wrong atomic.Int64
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			deadline, _ := ctx.Deadline()
			if end == context.Canceled {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Until(deadline), cancel)
			}
			defer cancel()
			for i := range n {
				all.Go(func() {
					h, err := rlock.New(c, fmt.Sprint("a", i)).TryLock(ctx)
					if h != nil || !errorIs(err, end) || errorIs(err, latchkey.ErrNotAcquired) {
						wrong.Add(1)
						t.Log(err)
					}
					if time.Since(deadline) > 100*time.Millisecond+2*faultNoise {
						late.Add(1)
					}
				})
			}
			all.Wait()
			require.Zero(t, wrong.Load())
			require.Zero(t, late.Load())
			time.Sleep(2*faultRead - time.Since(deadline)) // longer than every timeout
			r.servers[0].Thaw()
			thawed := time.Now()

			if end == context.DeadlineExceeded {
				redistest.Until(t, "the requests to have been run", func() bool { return mon.Count("evalsha") >= n })
				require.Empty(t, r.keys(t))
				require.Zero(t, writes(), "ghosts")
				require.Zero(t, c.Stats().Undone)
			} else {
				// Their requests may be carried out, but not stay.
				r.gone(t, 2500*time.Millisecond)
				t.Logf("%d ghosts, gone after %v, %d undone", writes(), time.Since(thawed), c.Stats().Undone)
				// Not as many as ghosts: the first undos were sent to the frozen server
				// too. It carries them out when it wakes up, but their callers have read
				// for long enough by then, and the next ones find nothing: what was
				// undone without anybody's hearing of it is not counted.
				require.LessOrEqual(t, c.Stats().Undone, uint64(writes()))
				require.Positive(t, c.Stats().Undone)
			}
			time.Sleep(time.Until(thawed.Add(time.Second)))
			require.Empty(t, r.keys(t))
			mon.Stop()
			r.free(t, "a0", "a1", "a199")
			require.LessOrEqual(t, c.Stats().Undone, uint64(n))
		})
	}
}

// A late request is repeated and granted. The late one arrives after the lock
// has been released, and must not take it for nobody.
func TestFaultRequestComesAfterTheRelease(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	c := locktest.NewClient(t, r.dial(t, redis.UniversalOptions{ReadTimeout: faultRead}))
	l := rlock.New(c, "a")
	r.on(1, lua.RLockAcquire, redistest.Late)
	h, err := l.Lock(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, r.count(redistest.Late), "the first request is held")
	ran := r.ran(t)
	require.NoError(t, h.Unlock(t.Context()))
	require.Empty(t, r.keys(t))
	redistest.Until(t, "the first undo to find nothing", func() bool { return r.ran(t) >= ran+2 })
	taken := func() int64 { return r.servers[0].CommandStats(t)["hset"] }
	before := taken()
	r.heal()
	redistest.Until(t, "the late request to take the lock", func() bool { return taken() > before })
	r.gone(t, 2*time.Second)
	r.free(t, "a")
}
