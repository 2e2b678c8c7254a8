package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/semaphore"
)

func testSemaphores(t *testing.T, r *rig) {
	for what, f := range map[string]func(*testing.T, *rig){
		"semaphore counts":  semaphoreCounts,
		"semaphore waiters": semaphoreWaiters,
		"latch counts":      latchCounts,
		"latch waiters":     latchWaiters,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f(t, r)
		})
	}
}

func semaphoreCounts(t *testing.T, r *rig) {
	s, th := semaphore.New(r.client(t), r.name(t)), r.j.thread()
	available := func(want int) {
		t.Helper()
		n, err := s.AvailablePermits(soon(t))
		require.NoError(t, err)
		require.Equal(t, want, n, "Go's AvailablePermits")
		require.EqualValues(t, want, th.number(t, "sem.available", s.Name()), "Java's availablePermits")
	}
	available(0)
	require.True(t, th.yes(t, "sem.tryset", s.Name(), 10))
	set, err := s.TrySetPermits(soon(t), 5)
	require.NoError(t, err)
	require.False(t, set, "Java has set them")
	available(10)
	require.NoError(t, s.TryAcquire(soon(t), 4))
	require.True(t, th.yes(t, "sem.tryacquire", s.Name(), 5))
	available(1)
	require.ErrorIs(t, s.TryAcquire(soon(t), 2), latchkey.ErrNotAcquired)
	require.False(t, th.yes(t, "sem.tryacquire", s.Name(), 2))
	require.False(t, th.yes(t, "sem.tryacquire", s.Name(), 2, 200))

	// Permits have no owner.
	th.do(t, "sem.release", s.Name(), 4)
	require.NoError(t, s.Release(soon(t), 5))
	available(10)
	require.NoError(t, s.AddPermits(soon(t), -3))
	th.do(t, "sem.add", s.Name(), 2)
	available(9)
	require.EqualValues(t, 9, th.number(t, "sem.drain", s.Name()))
	available(0)
	th.do(t, "sem.add", s.Name(), -2)
	available(-2)
	require.NoError(t, s.AddPermits(soon(t), 8))
	n, err := s.DrainPermits(soon(t))
	require.NoError(t, err)
	require.Equal(t, 6, n)
	require.True(t, th.yes(t, "sem.delete", s.Name()))
	released, err := s.ReleaseIfExists(soon(t), 1)
	require.NoError(t, err)
	require.False(t, released)
	if r.version.since(hasReleaseIfExist) {
		require.False(t, th.yes(t, "sem.releaseifexists", s.Name(), 1))
		_, err = s.TrySetPermits(soon(t), 1)
		require.NoError(t, err)
		require.True(t, th.yes(t, "sem.releaseifexists", s.Name(), 1))
		available(2)
		_, err = s.Delete(soon(t))
		require.NoError(t, err)
	}
	available(0)
}

// semaphoreWaiters: one release lets in as many waiters as it has permits for,
// and one that needs several goes on when they have come together.
func semaphoreWaiters(t *testing.T, r *rig) {
	s := semaphore.New(r.client(t), r.name(t))
	_, err := s.TrySetPermits(soon(t), 0)
	require.NoError(t, err)
	for _, release := range []func(n int){
		func(n int) { require.NoError(t, s.Release(soon(t), n)) },
		func(n int) { r.j.thread().do(t, "sem.release", s.Name(), n) },
	} {
		var calls []*call
		var grants []<-chan error
		for range 3 {
			calls = append(calls, r.j.thread().start("sem.acquire", s.Name(), 1))
			grants = append(grants, s.AcquireAsync(soon(t), 1))
		}
		r.subscribed(t, s.Name())
		time.Sleep(30 * time.Millisecond)
		release(6)
		for _, c := range calls {
			c.wait(t, 2*time.Second)
		}
		for _, g := range grants {
			require.NoError(t, <-g)
		}

		many, all := r.j.thread().start("sem.acquire", s.Name(), 3), s.AcquireAsync(soon(t), 3)
		r.subscribed(t, s.Name())
		for range 6 {
			release(1)
		}
		if err := <-all; err != nil {
			require.NoError(t, err)
		}
		many.wait(t, patience)
	}
	n, err := s.AvailablePermits(soon(t))
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = s.Delete(soon(t))
	require.NoError(t, err)
}

func latchCounts(t *testing.T, r *rig) {
	l, th := countdownlatch.New(r.client(t), r.name(t)), r.j.thread()
	count := func(want int) {
		t.Helper()
		n, err := l.Count(soon(t))
		require.NoError(t, err)
		require.EqualValues(t, want, n, "Go's Count")
		require.EqualValues(t, want, th.number(t, "latch.count", l.Name()), "Java's getCount")
	}
	for range 2 { // it can be used again
		count(0)
		require.True(t, th.yes(t, "latch.tryset", l.Name(), 4))
		set, err := l.TrySetCount(soon(t), 9)
		require.NoError(t, err)
		require.False(t, set)
		count(4)
		require.NoError(t, l.CountDown(soon(t)))
		th.do(t, "latch.down", l.Name())
		count(2)
		require.False(t, th.yes(t, "latch.await", l.Name(), 200))
		require.NoError(t, l.CountDown(soon(t)))
		th.do(t, "latch.down", l.Name())
		count(0)
		th.do(t, "latch.down", l.Name())
		require.NoError(t, l.CountDown(soon(t)))
		count(0)
		require.True(t, th.yes(t, "latch.await", l.Name(), 200))
		require.NoError(t, l.Await(soon(t)))
	}
	set, err := l.TrySetCount(soon(t), 3)
	require.NoError(t, err)
	require.True(t, set)
	require.False(t, th.yes(t, "latch.tryset", l.Name(), 2))
	require.True(t, th.yes(t, "latch.delete", l.Name()))
	count(0)
}

// latchWaiters: all waiters of both sides start together.
func latchWaiters(t *testing.T, r *rig) {
	l, th := countdownlatch.New(r.client(t), r.name(t)), r.j.thread()
	for range 2 { // the second time, Java's gate must have been closed by Go
		_, err := l.TrySetCount(soon(t), 2)
		require.NoError(t, err)
		var calls []*call
		var waits []<-chan error
		for range 4 {
			calls = append(calls, r.j.thread().start("latch.await", l.Name(), 20000))
			waits = append(waits, l.AwaitAsync(soon(t)))
		}
		r.subscribed(t, l.Name())
		th.do(t, "latch.down", l.Name())
		time.Sleep(50 * time.Millisecond)
		for i := range calls {
			calls[i].pending(t)
			require.Empty(t, waits[i])
		}
		require.NoError(t, l.CountDown(soon(t)))
		for i := range calls {
			require.Equal(t, "true", calls[i].wait(t, 2*time.Second))
			require.NoError(t, <-waits[i])
		}
	}

	// A delete by Go lets all go on, one by Java those of Go.
	require.True(t, th.yes(t, "latch.tryset", l.Name(), 2))
	c, wait := r.j.thread().start("latch.await", l.Name(), 20000), l.AwaitAsync(soon(t))
	r.subscribed(t, l.Name())
	time.Sleep(30 * time.Millisecond)
	_, err := l.Delete(soon(t))
	require.NoError(t, err)
	require.Equal(t, "true", c.wait(t, 2*time.Second))
	require.NoError(t, <-wait)

	require.True(t, th.yes(t, "latch.tryset", l.Name(), 2))
	wait = l.AwaitAsync(soon(t))
	r.subscribed(t, l.Name())
	require.True(t, th.yes(t, "latch.delete", l.Name()))
	select {
	case err := <-wait:
		require.NoError(t, err)
	case <-time.After(2 * time.Second):
		require.Fail(t, "Java's delete does not let Go's waiter go on")
	}
}
