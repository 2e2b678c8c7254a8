package latchkey_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// What HoldAtLeast keeps closed has the label of the work, which has ended, for as long
// as it is closed.
func TestClosedKeepsTheLabel(t *testing.T) {
	for name, lock := range labelled {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				ctx, other := t.Context(), newClient(t, b.Client(), latchkey.WithTakenDetails())
				labels := func() []string { return b.Redis.Keys(ctx, "latchkey_label:*").Val() }
				began := time.Now()
				h, err := lock(newClient(t, b.Client())).Lock(ctx, latchkey.Label("ann"), latchkey.HoldAtLeast(time.Minute))
				require.NoError(t, err)
				require.Len(t, labels(), 1)
				id := strings.TrimPrefix(labels()[0], "latchkey_label:{job}:")
				held := holderOf(inspect(t, other, "job"), id)
				require.Equal(t, "ann", held.Label)
				require.Zero(t, held.Ended)

				b.Advance(10 * time.Second)
				ended := time.Now()
				require.NoError(t, h.Unlock(ctx))
				b.Advance(12 * time.Second)
				require.Len(t, labels(), 1, "that of the holder is gone")
				info := inspect(t, other, "job")
				require.NotEmpty(t, info.Holders)
				for _, closed := range info.Holders {
					require.NotEqual(t, id, closed.ID)
					require.Equal(t, "ann", closed.Label)
					require.Equal(t, held.Host, closed.Host)
					require.Equal(t, held.PID, closed.PID)
					require.True(t, began.Equal(closed.Since), "%v", closed.Since)
					require.True(t, ended.Equal(closed.Ended), "%v", closed.Ended)
				}
				left := b.Redis.PTTL(ctx, labels()[0]).Val()
				require.LessOrEqual(t, left, 38*time.Second, "it ends with the closing")
				require.GreaterOrEqual(t, left, 38*time.Second-time.Millisecond)

				l := lock(other)
				if name == "read" {
					l = rwlock.New(other, "job").WriteLock()
				}
				_, err = l.TryLock(ctx)
				require.ErrorContains(t, err, ": not acquired: closed until its minimum time by ann (")
				require.ErrorContains(t, err, "), which ended 12s ago, 38s left")
				b.Advance(38 * time.Second)
				require.Empty(t, labels())
				_, err = l.TryLock(ctx)
				require.NoError(t, err)
			})
		})
	}
}

// Only what stays closed costs a command for its label.
func TestClosedCostsNoOtherUnlock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		conn := b.Client()
		l, scripts := rlock.New(newClient(t, conn), "job"), 0
		b.Link(conn).OnCommand(func(args []string) redistest.Act {
			if strings.HasPrefix(strings.ToLower(args[0]), "eval") {
				scripts++
			}
			return redistest.Pass
		})
		for _, opts := range [][]latchkey.LockOption{
			nil,
			{latchkey.Label("ann")},
			{latchkey.HoldAtLeast(time.Second)},
			{latchkey.Label("ann"), latchkey.HoldAtLeast(time.Second)},
		} {
			for i := range 2 {
				h, err := l.Lock(t.Context(), opts...)
				require.NoError(t, err)
				scripts = 0
				require.NoError(t, h.Unlock(t.Context()))
				if i > 0 { // the scripts are on the server
					require.Equal(t, max(len(opts), 1), scripts)
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// A label that is lost, or written late, does no harm.
func TestClosedLabelGoesAstray(t *testing.T) {
	for _, act := range []redistest.Act{redistest.Drop, redistest.Swallow} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			ctx, conn := t.Context(), b.Client()
			l := rlock.New(newClient(t, conn), "job")
			h, err := l.Lock(ctx, latchkey.Label("ann"), latchkey.HoldAtLeast(10*time.Second))
			require.NoError(t, err)
			b.Link(conn).OnCommand(func(args []string) redistest.Act {
				if strings.HasSuffix(args[len(args)-1], " ann") {
					return act
				}
				return redistest.Pass
			})
			require.NoError(t, h.Unlock(ctx))
			for _, key := range b.Redis.Keys(ctx, "*").Val() {
				require.Positive(t, b.Redis.PTTL(ctx, key).Val(), key)
			}
			b.Advance(10 * time.Second)
			require.Empty(t, b.Redis.Keys(ctx, "*").Val())
		})
	}
}

// A writer that goes on as a reader keeps nothing closed, and has no label there.
func TestClosedNotByAReader(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rw := rwlock.New(newClient(t, b.Client()), "job")
		ctx := latchkey.WithHolder(t.Context())
		w, err := rw.WriteLock().Lock(ctx, latchkey.Label("ann"), latchkey.HoldAtLeast(time.Minute))
		require.NoError(t, err)
		r, err := rw.ReadLock().Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Unlock(ctx))
		require.Empty(t, b.Redis.Keys(ctx, "latchkey_label:*").Val())
		require.NoError(t, r.Unlock(ctx))
	})
}

// On a real server: the label ends with the closing, however late it is written, and
// goes with a holder that is forced out.
func TestClosedOnAServer(t *testing.T) {
	s := redistest.Start(t)
	for name, lock := range labelled {
		t.Run(name, func(t *testing.T) {
			ctx, rdb := t.Context(), s.Client(t)
			require.NoError(t, rdb.FlushDB(ctx).Err())
			c := newClient(t, rdb)
			h, err := lock(c).Lock(ctx, latchkey.Label("ann"), latchkey.HoldAtLeast(10*time.Second))
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			labels := rdb.Keys(ctx, "latchkey_label:*").Val()
			require.Len(t, labels, 1)
			left := rdb.PTTL(ctx, "job").Val()                                                // before that of the label: time passes
			require.LessOrEqual(t, rdb.PTTL(ctx, labels[0]).Val(), min(left, 10*time.Second)) // a group's key has a second more
			closed := inspect(t, c, "job").Holders[0]
			require.Equal(t, "ann", closed.Label)
			require.False(t, closed.Ended.Before(closed.Since))
			force, ok := lock(c).(interface {
				ForceUnlockHolder(ctx context.Context, holder string) (bool, error)
			})
			if !ok {
				return
			}
			freed, err := force.ForceUnlockHolder(ctx, closed.ID)
			require.NoError(t, err)
			require.True(t, freed)
			require.Empty(t, rdb.Keys(ctx, "latchkey_label:*").Val())
		})
	}
}
