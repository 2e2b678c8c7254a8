package rwlock_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rwlock"
)

// readTimeout is a go-redis read timeout for which a test can wait.
const readTimeout = 200 * time.Millisecond

// A rig is a server with a proxy in front of it, which loses or repeats
// requests of a client.
type rig struct {
	*testing.T
	server *redistest.Server
	proxy  *redistest.Proxy
	rdb    *redis.Client // around the proxy
}

func newRig(t *testing.T) *rig {
	s := redistest.Start(t)
	for _, script := range []*lua.Script{
		lua.RWLockAcquireRead, lua.RWLockAcquireWrite, lua.RWLockReleaseRead, lua.RWLockReleaseWrite, lua.RWLockRenew,
	} {
		s.Do(t, "SCRIPT", "LOAD", script.Source) // so that each run is one EVALSHA
	}
	p := redistest.NewProxy(t, s.Addr)
	p.HoldFor(2 * readTimeout)
	return &rig{t, s, p, s.Client(t)}
}

// client returns a client through the proxy.
func (r *rig) client(opts ...latchkey.Option) *latchkey.Client {
	return r.reading(readTimeout, opts...)
}

// reading is client with another read timeout; 0 means that of go-redis.
func (r *rig) reading(timeout time.Duration, opts ...latchkey.Option) *latchkey.Client {
	rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: r.proxy.Addr(), ReadTimeout: timeout}))
	c := latchkey.New(rdb, opts...)
	r.Cleanup(func() {
		_ = c.Close()
		_ = rdb.Close()
	})
	return c
}

// on applies act to the next n runs of script.
func (r *rig) on(n int64, script *lua.Script, act redistest.Act) {
	var left atomic.Int64
	left.Store(n)
	r.proxy.OnCommand(func(args []string) redistest.Act {
		if strings.EqualFold(args[0], "evalsha") && args[1] == script.SHA && left.Add(-1) >= 0 {
			return act
		}
		return redistest.Pass
	})
}

// is checks what the lock has of a holder: the hold count in its field, or "",
// and the number of timeouts.
func (r *rig) is(field, count string, timeouts int) {
	r.Helper()
	require.Equal(r, count, r.rdb.HGet(r.Context(), "a", field).Val(), "the hold count")
	require.Len(r, r.rdb.Keys(r.Context(), "*:rwlock_timeout:*").Val(), timeouts, "timeouts")
}

func (r *rig) empty() {
	r.Helper()
	require.Empty(r, r.rdb.Keys(r.Context(), "*").Val())
}

// side is one half with its scripts.
type side struct {
	name             string
	lock             func(*rwlock.RWLock) *rwlock.Lock
	suffix           string
	acquire, release *lua.Script
}

var sides = []side{
	{"read", (*rwlock.RWLock).ReadLock, "", lua.RWLockAcquireRead, lua.RWLockReleaseRead},
	{"write", (*rwlock.RWLock).WriteLock, ":write", lua.RWLockAcquireWrite, lua.RWLockReleaseWrite},
}

// timeouts returns how many timeouts a side has for n holds.
func (s side) timeouts(n int) int {
	if s.suffix != "" {
		return 0
	}
	return n
}

// TestLostReplies checks that a reply that never comes changes nothing, however
// it is lost, and that a repeated request changes nothing either.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	for _, side := range sides {
		for _, act := range []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.Swallow, redistest.Hold, redistest.Twice} {
			t.Run(side.name+" "+act.String(), func(t *testing.T) {
				l := side.lock(rwlock.New(c, "a"))
				before := r.proxy.Count(act)
				ctx := t.Context()
				var holds []*latchkey.Hold
				for n := 1; n <= 3; n++ {
					r.on(1, side.acquire, act)
					h, err := l.Lock(ctx)
					require.NoError(t, err)
					holds, ctx = append(holds, h), h.Context()
					r.is(h.HolderID()+side.suffix, strconv.Itoa(n), side.timeouts(n))
				}
				for n := 2; n > 0; n-- {
					r.on(1, side.release, act)
					require.NoError(t, holds[n].Unlock(ctx))
					r.is(holds[0].HolderID()+side.suffix, strconv.Itoa(n), side.timeouts(n))
				}
				if act == redistest.Twice {
					// What the second run of the last release finds cannot be told
					// from a lock that somebody has taken away.
					act = redistest.Pass
				}
				r.on(1, side.release, act)
				require.NoError(t, holds[0].Unlock(ctx))
				require.ErrorIs(t, holds[0].Unlock(ctx), latchkey.ErrNotHeld)
				require.GreaterOrEqual(t, r.proxy.Count(act), before+5, "the faults did not happen")
				r.empty()
			})
		}
	}
	require.Zero(t, c.Stats().Undone)
	require.Zero(t, c.Stats().Losses)
}

// A repeated release of a reader takes nothing from holders that came
// meanwhile.
func TestRepeatedReleaseSparesOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	around := latchkey.New(redistest.User(r, r.rdb))
	defer around.Close()
	other := rwlock.New(around, "a")
	for _, side := range sides {
		c := r.client()
		h, err := side.lock(rwlock.New(c, "a")).Lock(t.Context())
		require.NoError(t, err)
		r.on(1, side.release, redistest.Swallow)
		before := r.proxy.Count(redistest.Swallow)
		done := h.UnlockAsync(t.Context())
		redistest.Until(t, "the release to have run", func() bool { return r.proxy.Count(redistest.Swallow) == before+1 })
		successor, err := other.WriteLock().TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-done)
		r.is(successor.HolderID()+":write", "1", 0)
		require.NoError(t, successor.Unlock(t.Context()))
		r.empty()
	}
}

// An acquire whose caller has gone before the reply is taken back.
func TestAbandonedAcquireIsUndone(t *testing.T) {
	r := newRig(t)
	for _, side := range sides {
		for _, act := range []redistest.Act{redistest.Hold, redistest.Late} {
			t.Run(side.name+" "+act.String(), func(t *testing.T) {
				c := r.client()
				r.on(1, side.acquire, act)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, err := side.lock(rwlock.New(c, "a")).Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, time.Since(start), 300*time.Millisecond)
				var e *latchkey.Error
				require.ErrorAs(t, err, &e)
				require.True(t, e.MaybeApplied())
				if act == redistest.Hold {
					redistest.Until(t, "the undo", func() bool { return c.Stats().Undone == 1 })
				} else {
					before := r.proxy.Count(redistest.Pass)
					redistest.Until(t, "the late request", func() bool { return r.proxy.Count(redistest.Pass) > before })
				}
				require.NoError(t, c.Close())
				r.empty()
			})
		}
	}
}

// A renewal whose reply is lost is not a loss.
func TestLostRenewal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client(latchkey.WithWatchdogTimeout(1500 * time.Millisecond))
	rw := rwlock.New(c, "a")
	w, err := rw.WriteLock().Lock(t.Context())
	require.NoError(t, err)
	h, err := rw.ReadLock().Lock(w.Context())
	require.NoError(t, err)
	r.on(2, lua.RWLockRenew, redistest.LoseRST)
	redistest.Until(t, "renewals", func() bool { return c.Stats().Renewals >= 6 })
	require.EqualValues(t, 2, r.proxy.Count(redistest.LoseRST))
	r.is(h.HolderID(), "1", 1)
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, w.Unlock(t.Context()))
	require.Zero(t, c.Stats().Losses)
	r.empty()
}
