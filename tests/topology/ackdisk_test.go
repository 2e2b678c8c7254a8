package topology

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// everySecond are the arguments of a server that writes to disk once a second,
// as most do.
var everySecond = []string{"--appendonly", "yes", "--appendfsync", "everysec"}

// withWaitAOF returns a server that has WAITAOF. Without one, the test ends
// with what can be tested without it: TestAckDiskRefused.
func withWaitAOF(t *testing.T) (path string, ok bool) {
	t.Helper()
	path, ok = redistest.FindWaitAOF()
	if !ok {
		t.Log("no server with WAITAOF: neither is redis-server of 7.2 or later, nor is there a valkey-server")
		TestAckDiskRefused(t)
	}
	return path, ok
}

// All kinds of object are granted when they are on two disks. Renewals and
// releases wait for that too.
func TestAckDiskOnServers(t *testing.T) {
	path, ok := withWaitAOF(t)
	if !ok {
		return
	}
	primary := redistest.StartProgram(t, path, everySecond...)
	primary.Allow(t, "wait", "waitaof")
	replica := redistest.StartReplica(t, primary, everySecond...)
	rdb := primary.Client(t)
	well := newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, 10*time.Second, latchkey.AckDisk))
	soon := latchkey.WithReplicaAck(1, 300*time.Millisecond, latchkey.AckDisk)

	redistest.Until(t, "the replica to tell of its disk", func() bool {
		rdb.Incr(t.Context(), "n")
		got, err := rdb.Do(t.Context(), "waitaof", 1, 1, 2000).Int64Slice()
		return err == nil && got[0] == 1 && got[1] == 1
	})
	var all []<-chan waiter
	for kind := range objects {
		all = append(all, waitFor(t.Context(), kind, well, "both"+kind))
	}
	for _, ch := range all {
		receive(t, ch).give(t)
	}

	t.Run("renewals and releases", func(t *testing.T) {
		c := newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, 10*time.Second,
			latchkey.AckDisk, latchkey.AckRenewals, latchkey.AckReleases))
		h, err := rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.NoError(t, h.Unlock(t.Context()))

		c = newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, 10*time.Second, latchkey.AckDisk),
			latchkey.WithUnlockTimeout(time.Second))
		h, err = rlock.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		replica.Freeze()
		defer replica.Thaw()
		require.NoError(t, h.Extend(t.Context(), time.Minute), "which was not asked for")
		require.NoError(t, h.Unlock(t.Context()))
	})

	short := func(t *testing.T, replicas string) {
		t.Helper()
		c := newClient(t, primary.Client(t), soon)
		for kind, take := range objects {
			start := time.Now()
			_, err := take(t.Context(), c, "short"+kind)
			notReplicated(t, err)
			require.ErrorContains(t, err, replicas)
			require.Less(t, time.Since(start), 5*time.Second, kind)
		}
		plain := newClient(t, primary.Client(t))
		for kind := range objects {
			take(t, kind, plain, "short"+kind).give(t)
		}
	}
	t.Run("a replica that is frozen", func(t *testing.T) {
		replica.Freeze()
		defer replica.Thaw()
		short(t, "and 0 of 1 replicas have it on disk within 300ms")
	})
	t.Run("a replica without a disk", func(t *testing.T) {
		redistest.Until(t, "the replica", func() bool {
			n, err := rdb.Wait(t.Context(), 1, time.Second).Result()
			return err == nil && n == 1
		})
		replica.Do(t, "CONFIG", "SET", "appendonly", "no")
		short(t, "and 0 of 1 replicas have it on disk within 300ms")
		c := newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, 5*time.Second))
		h, err := rlock.New(c, "memory").Lock(t.Context())
		require.NoError(t, err, "WAIT is content with its memory")
		require.NoError(t, h.Unlock(t.Context()))
	})
	t.Run("a primary without a disk", func(t *testing.T) {
		primary.Do(t, "CONFIG", "SET", "appendonly", "no")
		_, err := rlock.New(newClient(t, primary.Client(t), soon), "a").Lock(t.Context())
		notReplicated(t, err)
		require.ErrorContains(t, err, "appendonly")
	})
}
