package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// testMapper: WithKeyPrefix and a NameMapper that puts the same text before each
// name are the same, for keys and channels; and so is no mapper at all with the
// text in the name.
func testMapper(t *testing.T, r *rig) {
	t.Run("mapper", func(t *testing.T) {
		t.Parallel()
		const prefix = "app:"
		c := r.client(t, latchkey.WithKeyPrefix(prefix))
		mapped := *r
		mapped.j = r.jvm.open(t, r.address(), "prefix="+prefix)
		plain := r.j

		for _, k := range kinds(r.version) {
			if k.java == "fair" && !r.version.since(hasFairMapper) || k.java == "write" && !r.version.since(hasRWMapper) {
				continue // the queue has no prefix; the read-write lock has it twice
			}
			keep := k.keep
			if keep != "" {
				keep = "redisson_lock_token:{" + prefix + "%s}"
			}
			name := r.name(t, keep)
			l, th := k.open(c, name), mapped.j.thread()
			java, golang := javaLocker(th, k.java, name), goLocker(l)
			if !k.silent {
				r.wakesWithin(t, time.Second, name, java, golang)
				r.wakesWithin(t, time.Second, name, golang, java)
			}
			h, err := l.TryLock(soon(t))
			require.NoError(t, err)
			require.Equal(t, name, h.Name())
			require.False(t, th.yes(t, "trylock", k.java, name))
			require.False(t, plain.thread().yes(t, "trylock", k.java, prefix+name), "the same without a mapper")
			require.True(t, r.exists(t, prefix+name))
			require.NoError(t, h.Unlock(soon(t)))
		}

		if r.version.since(hasRWMapper) {
			rw := rwlock.New(c, r.name(t))
			w, err := rw.WriteLock().Lock(soon(t))
			require.NoError(t, err)
			require.False(t, mapped.j.thread().yes(t, "trylock", "read", rw.Name()))
			require.NoError(t, w.Unlock(soon(t)))
		}

		sem := semaphore.New(c, r.name(t))
		_, err := sem.TrySetPermits(soon(t), 2)
		require.NoError(t, err)
		require.EqualValues(t, 2, mapped.j.thread().number(t, "sem.drain", sem.Name()))
		_, err = sem.Delete(soon(t))
		require.NoError(t, err)

		if r.version.since(hasPermitCounts) { // before, the ids had the name without the prefix
			permits := permitsemaphore.New(c, r.name(t))
			_, err = permits.TrySetPermits(soon(t), 1)
			require.NoError(t, err)
			require.NoError(t, permits.Release(soon(t), mapped.j.thread().do(t, "permit.acquire", permits.Name())))
			_, err = permits.Delete(soon(t))
			require.NoError(t, err)
		}

		latch := countdownlatch.New(c, r.name(t))
		require.True(t, mapped.j.thread().yes(t, "latch.tryset", latch.Name(), 1))
		wait := mapped.j.thread().start("latch.await", latch.Name(), 20000)
		r.subscribed(t, latch.Name())
		require.NoError(t, latch.CountDown(soon(t)))
		require.Equal(t, "true", wait.wait(t, patience))
	})
}
