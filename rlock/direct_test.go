package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// byName returns how many connections of that name a server has.
func byName(t *testing.T, s *redistest.Server, name string) int {
	t.Helper()
	return strings.Count(s.Do(t, "CLIENT", "LIST")[0], " name="+name+" ")
}

// often takes and gives back n locks, several at a time.
func often(t *testing.T, c *latchkey.Client, n, atATime int) {
	t.Helper()
	var group sync.WaitGroup
	for i := range atATime {
		group.Go(func() {
			l := rlock.New(c, fmt.Sprint("often", i))
			for range n {
				h, err := l.Lock(t.Context())
				if err == nil {
					err = h.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// Frequent commands leave go-redis's pool alone, and what they go over is closed with
// the client.
func TestDirectConnections(t *testing.T) {
	if redistest.Eager() {
		t.Skip("there is one from the first command on")
	}
	s := redistest.Start(t)
	for _, on := range []bool{true, false} {
		name := "direct-" + map[bool]string{true: "on", false: "off"}[on]
		rdb := s.Client(t, func(o *redis.Options) { o.ClientName = name })
		c := latchkey.New(redistest.User(t, rdb), latchkey.WithDirectConnections(on))
		t.Cleanup(func() { _ = c.Close() })
		often(t, c, 3, 1)
		pool := int(rdb.PoolStats().TotalConns)
		require.Equal(t, pool, byName(t, s, name), "for a few commands none is made")
		often(t, c, 300, 1)
		own := byName(t, s, name) - pool
		if !on {
			require.Zero(t, own)
			continue
		}
		require.Equal(t, 1, own, "one is enough for one goroutine")
		hits := rdb.PoolStats().Hits
		often(t, c, 100, 1)
		require.LessOrEqual(t, rdb.PoolStats().Hits, hits+2, "commands by go-redis")
		for range 5 {
			often(t, c, 300, 10)
		}
		own = byName(t, s, name) - int(rdb.PoolStats().TotalConns)
		require.LessOrEqual(t, own, 8)
		require.NoError(t, c.Close())
		redistest.Until(t, "the connections to be closed", func() bool {
			return byName(t, s, name) == int(rdb.PoolStats().TotalConns)
		})
	}
}

// An Unlock has a PING ahead of its command, by which others are told before its caller is
// answered, if some were told the last time. There is none where nobody waits.
func TestUnlockHasOthersToldFirst(t *testing.T) {
	s := redistest.Start(t)
	one := newClient(t, s)
	mine, theirs := rlock.New(one, "a"), rlock.New(newClient(t, s), "a")
	watcher, m := s.Client(t), s.Monitor(t)
	// unlock gives the lock back, with somebody waiting or not.
	unlock := func(awaited bool) (pinged bool) {
		h := mustLock(t, mine)
		var waiter <-chan faultResult
		if awaited {
			waiter = faultGo(func() (*latchkey.Hold, error) { return theirs.Lock(t.Context()) })
			redistest.Until(t, "the waiter to be in the list", func() bool {
				return watcher.ZCard(t.Context(), "latchkey_next:{a}").Val() == 1
			})
		}
		mustUnlock(t, h)
		if awaited {
			r := <-waiter
			require.NoError(t, r.err)
			mustUnlock(t, r.hold)
		}
		before := map[string]string{} // the last command of each connection
		for _, line := range m.Lines() {
			if runs(line.Args, lua.RLockRelease) && slices.Contains(line.Args, h.HolderID()) {
				return before[line.Source] == "ping"
			}
			before[line.Source] = line.Name()
		}
		require.FailNow(t, "no command has given it back")
		return false
	}
	for range 3 {
		often(t, one, 60, 1) // so that it has a connection of its own
		require.False(t, unlock(false), "the command alone")
	}
	toldFirst := func() bool {
		often(t, one, 60, 1)
		unlock(true)
		return unlock(true)
	}
	redistest.Until(t, "who waits to be told first", toldFirst)
	redistest.Until(t, "the command to go alone again", func() bool { return !unlock(false) })
	redistest.Until(t, "who waits to be told first, once more", toldFirst)
}

// Who sends much can cancel as soon as anybody, and what is lost on the way is
// asked for again.
func TestFaultDirect(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	rdb := r.dial(t, redis.UniversalOptions{}).(*redis.Client)
	c := faultClient(t, rdb)
	often(t, c, 200, 1)
	l := rlock.New(c, "a")
	hits := rdb.PoolStats().Hits

	for _, act := range []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.RefuseRST} {
		often(t, c, 50, 1)
		r.proxies[0].OnNext(1, "evalsha", act)
		h, err := l.Lock(t.Context())
		require.NoError(t, err, "%v", act)
		require.Equal(t, "1", r.direct.HGet(t.Context(), "a", h.HolderID()).Val(), "%v", act)
		r.proxies[0].OnNext(1, "evalsha", act)
		require.NoError(t, h.Unlock(t.Context()), "%v", act)
		require.Zero(t, r.direct.Exists(t.Context(), "a").Val(), "%v", act)
		require.Positive(t, r.count(act), "%v", act)
	}
	require.Less(t, rdb.PoolStats().Hits-hits, uint32(150), "most went by connections of its own")

	often(t, c, 50, 1)
	r.proxies[0].Mute(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 300*time.Millisecond+prompt)
	r.proxies[0].Mute(false)
	redistest.Until(t, "the lock to be free", func() bool {
		h, err := l.TryLock(t.Context())
		return err == nil && h.Unlock(t.Context()) == nil
	})
}
