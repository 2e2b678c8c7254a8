package rwlock_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rwlock"
)

// While a slot is being moved, a lock may be at its new node already, and its
// readers' timeouts at the old one, which creates no keys. No reader is taken
// for dead, and no writer comes in.
func TestReadersWhileTheSlotMoves(t *testing.T) {
	cl := redistest.StartCluster(t, 2)
	slot := cl.Slot(t, "{rw}")
	mine, others := locktest.NewClient(t, cl.Client(t)), locktest.NewClient(t, cl.Client(t))
	for _, test := range []struct {
		name  string
		moved []string // to the new node, before the step
		// begin returns the step, and what is held after it.
		begin func(t *testing.T, rw, other *rwlock.RWLock) (step func() error, held *latchkey.Hold)
	}{
		{"{rw}a reader leaves", []string{""}, func(t *testing.T, rw, _ *rwlock.RWLock) (func() error, *latchkey.Hold) {
			leaves := locktest.Must(t)(rw.ReadLock().Lock(t.Context()))
			return func() error { return leaves.Unlock(t.Context()) }, locktest.Must(t)(rw.ReadLock().Lock(t.Context()))
		}},
		{"{rw}a reader lingers", nil, func(t *testing.T, rw, _ *rwlock.RWLock) (func() error, *latchkey.Hold) {
			lingers := locktest.Must(t)(rw.ReadLock().Lock(t.Context(), latchkey.HoldAtLeast(20*time.Second)))
			return func() error { return lingers.Unlock(t.Context()) }, nil
		}},
		{"{rw}a writer reads on", []string{""}, func(t *testing.T, rw, _ *rwlock.RWLock) (func() error, *latchkey.Hold) {
			ctx := latchkey.WithHolder(t.Context())
			writes := locktest.Must(t)(rw.WriteLock().Lock(ctx))
			return func() error { return writes.Unlock(ctx) }, locktest.Must(t)(rw.ReadLock().Lock(ctx))
		}},
		{"{rw}a writer asks", []string{"", "latchkey_writer:"}, func(t *testing.T, rw, other *rwlock.RWLock) (func() error, *latchkey.Hold) {
			reads := locktest.Must(t)(rw.ReadLock().Lock(t.Context()))
			_, err := other.WriteLock().TryLock(t.Context(), latchkey.Wait(3*time.Second))
			require.ErrorIs(t, err, latchkey.ErrNotAcquired)
			return func() error {
				_, err := other.WriteLock().TryLock(t.Context())
				if assert.ErrorIs(t, err, latchkey.ErrNotAcquired) {
					return nil
				}
				return err
			}, reads
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			other := rwlock.New(others, test.name)
			step, held := test.begin(t, rwlock.New(mine, test.name), other)
			from := cl.Owner(t, slot)
			to := 1 - from
			host, port, err := net.SplitHostPort(cl.Nodes[to].Addr)
			require.NoError(t, err)
			cl.OpenSlot(t, slot, from, to)
			for _, prefix := range test.moved {
				cl.Nodes[from].Do(t, "MIGRATE", host, port, prefix+test.name, "0", "4000")
			}
			stepped := make(chan error, 1)
			go func() { stepped <- step() }()
			time.Sleep(300 * time.Millisecond) // the step meets the open slot
			cl.MoveSlot(t, slot, from, to)
			assert.NoError(t, <-stepped)
			h, err := other.WriteLock().TryLock(t.Context())
			if !assert.ErrorIs(t, err, latchkey.ErrNotAcquired) && err == nil {
				_ = h.Unlock(context.WithoutCancel(t.Context()))
			}
			if held != nil {
				require.NoError(t, held.Unlock(t.Context()))
			}
		})
	}
}

// A server refuses a command whose keys are at different nodes with an error of
// its own wording; here the wording does not mention a slot. Whatever the
// wording, the reader may be alive.
func TestReaderMayLive(t *testing.T) {
	server := redistest.Start(t)
	s := &scripted{t, server.Client(t)}
	user := redistest.UserOnAny(t, s.rdb)
	server.Deny(t, "exists")
	require.ErrorContains(t, user.Exists(t.Context(), "lock").Err(), "NOPERM")
	s.scene("lock=mode:read you:1:1 for 30000")
	reply, err := user.Eval(t.Context(), lua.RWLockAcquireWrite.Source, []string{"lock", sign},
		"me:1:write", 1, 30000, s.now()+within, ahead, prefix, 0).Int64Slice()
	require.NoError(t, err)
	require.Zero(t, reply[0])
	require.Positive(t, reply[1])
}
