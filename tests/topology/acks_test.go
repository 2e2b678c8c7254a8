package topology

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// notReplicated checks that an acquire failed for lack of replicas and left
// nothing behind: its error is definite.
func notReplicated(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, latchkey.ErrNotReplicated)
	var e *latchkey.Error
	require.True(t, errors.As(err, &e))
	require.False(t, e.MaybeApplied(), "%v", err)
}

func TestReplicaAck(t *testing.T) {
	redistest.Long(t, "replicas that are stopped, and a server that waits for them")
	primary := redistest.Start(t)
	primary.Allow(t, "wait")
	replicas := []*redistest.Server{redistest.StartReplica(t, primary), redistest.StartReplica(t, primary)}
	acks := latchkey.WithReplicaAck(2, 3*time.Second)
	well := latchkey.WithReplicaAck(2, 10*time.Second) // where it is to succeed, on a busy machine too
	soon := latchkey.WithReplicaAck(2, 300*time.Millisecond)
	rdb := primary.Client(t)

	t.Run("all have it", func(t *testing.T) {
		c := newClient(t, primary.Client(t), well)
		for i := range 50 {
			name := "confirmed" + string(rune('0'+i))
			h, err := rlock.New(c, name).Lock(t.Context())
			require.NoError(t, err)
			for _, r := range replicas {
				require.Equal(t, []string{"1"}, r.Do(t, "EXISTS", name), "at the replica, at once")
			}
			require.NoError(t, h.Unlock(t.Context()))
		}
		for kind := range objects {
			handsOn(t, kind, c, newClient(t, primary.Client(t), well), "both"+kind)
		}
	})
	t.Run("too few have it", func(t *testing.T) {
		replicas[0].Freeze()
		defer replicas[0].Thaw()
		c := newClient(t, primary.Client(t), soon)
		before := c.Stats().Undone
		for kind, take := range objects {
			start := time.Now()
			_, err := take(t.Context(), c, "short"+kind)
			notReplicated(t, err)
			require.ErrorContains(t, err, "of 2 replicas have confirmed within 300ms")
			require.Greater(t, time.Since(start), 300*time.Millisecond)
			require.Less(t, time.Since(start), patience)
		}
		require.Equal(t, before+uint64(len(objects)), c.Stats().Undone)
		require.Zero(t, c.Stats().Held)
		for _, kind := range []string{"rlock", "fenced", "spinning", "fair", "write lock"} {
			require.Zero(t, rdb.Exists(t.Context(), "short"+kind).Val(), kind)
		}
		require.Equal(t, "1", rdb.Get(t.Context(), "shortsemaphore").Val(), "permits")
		available, err := permitsemaphore.New(c, "shortpermit semaphore").AvailablePermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, available)

		// One that asks for less has it.
		h, err := rlock.New(newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, time.Second)), "one will do").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	})
	t.Run("only that acquisition is given back", func(t *testing.T) {
		c := newClient(t, primary.Client(t), acks)
		l := rlock.New(c, "nested")
		ctx := latchkey.WithHolder(t.Context())
		outer, err := l.Lock(ctx)
		require.NoError(t, err)
		replicas[1].Freeze()
		_, err = l.Lock(ctx)
		notReplicated(t, err)
		replicas[1].Thaw()
		n, err := l.HoldCount(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, outer.Unlock(ctx))
		require.Zero(t, rdb.Exists(t.Context(), "nested").Val())

		s := semaphore.New(c, "of three")
		_, err = s.TrySetPermits(ctx, 3)
		require.NoError(t, err)
		require.NoError(t, s.Acquire(ctx, 1))
		replicas[1].Freeze()
		notReplicated(t, s.Acquire(ctx, 1))
		replicas[1].Thaw()
		left, err := s.AvailablePermits(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, left)
	})
	t.Run("no way around it", func(t *testing.T) { // by a hand-over in the process
		c := newClient(t, primary.Client(t), acks, latchkey.WithHandOver(time.Minute))
		for _, kind := range []string{"rlock", "fair"} {
			first := take(t, kind, c, "around"+kind)
			next := waitFor(t.Context(), kind, c, "around"+kind)
			waiting(t, c, 1)
			replicas[0].Freeze()
			first.give(t)
			notReplicated(t, (<-next).err)
			replicas[0].Thaw()
		}
	})
	t.Run("no replicas", func(t *testing.T) {
		s := redistest.Start(t)
		s.Allow(t, "wait")
		_, err := rlock.New(newClient(t, s.Client(t), acks), "a").TryLock(t.Context())
		notReplicated(t, err)
	})
	t.Run("the answer to WAIT is lost", func(t *testing.T) {
		p := redistest.NewProxy(t, primary.Addr)
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
		defer rdb.Close()
		c := newClient(t, rdb, well)
		lost := 0
		p.OnCommand(func(args []string) redistest.Act {
			if args[0] == "wait" && lost < 3 {
				lost++
				return redistest.LoseRST
			}
			return redistest.Pass
		})
		h, err := rlock.New(c, "lost").TryLock(t.Context())
		require.NoError(t, err, "it is asked again")
		require.Equal(t, 3, lost)
		require.NoError(t, h.Unlock(t.Context()))
		require.Zero(t, primary.Client(t).Exists(t.Context(), "lost").Val())
	})
}
