package gocron_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	latchkeygocron "github.com/latchkey-go/latchkey/contrib/gocron"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/once"
)

// start starts a scheduler with one job; it ends with the test.
func start(t *testing.T, def gocron.JobDefinition, job func(), opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	_, err = s.NewJob(def, gocron.NewTask(job), gocron.WithName("report"))
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// Three machines that begin at different times: each fire is run once. A scheduler does
// not stop in fake time, where it would wait without sleeping.
func TestOnce(t *testing.T) {
	const period, enough = 100 * time.Millisecond, 20
	server := redistest.Start(t)
	var runs atomic.Int64
	begun := make(chan bool, 1000)
	var schedulers []gocron.Scheduler
	var job *once.Job
	for range 3 {
		c := locktest.NewClient(t, redistest.User(t, server.Client(t)))
		job = once.New(c, "report")
		schedulers = append(schedulers, start(t, gocron.DurationJob(period), func() {
			runs.Add(1)
			begun <- true
		}, gocron.WithDistributedLocker(latchkeygocron.Once(c, period, once.Label("ann")))))
		<-begun
		time.Sleep(period / 3) // the next one begins at another point of the period
	}
	for range enough {
		<-begun
	}
	for _, s := range schedulers {
		require.NoError(t, s.Shutdown())
	}
	records, err := job.Runs(t.Context(), 1000)
	require.NoError(t, err)
	require.Len(t, records, int(runs.Load()))
	for _, r := range records {
		require.Equal(t, once.Done, r.Outcome)
		require.Equal(t, "ann", r.Label)
		require.Zero(t, r.Fire.UnixMilli()%period.Milliseconds(), r.Fire)
	}
}

// A lock is held until its Unlock, though the scheduler has been told to stop; a second
// Unlock does no harm.
func TestOnceOutlivesShutdown(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		job, l := once.New(c, "report"), latchkeygocron.Once(c, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := l.Lock(ctx, "report")
		require.NoError(t, err)
		cancel()
		time.Sleep(10 * time.Minute)
		last, err := job.Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, once.Running, last.Outcome)
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, lock.Unlock(ctx))
		last, err = job.Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, once.Done, last.Outcome)
		require.Equal(t, 10*time.Minute, last.Ended.Sub(last.Started))

		_, err = l.Lock(t.Context(), "report")
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		_, err = l.Lock(ctx, "another")
		require.ErrorIs(t, err, context.Canceled)
		_, err = l.Lock(t.Context(), "")
		require.ErrorContains(t, err, "no name")
	})
}

// A holder that loses the lock learns it from Unlock, and the run is not noted as done.
func TestOnceLost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		l := latchkeygocron.Once(locktest.NewClient(t, rdb), time.Hour, once.OnFailure(once.Retry(3)))
		lock, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		b.Partition(rdb)
		time.Sleep(31 * time.Second)
		b.Heal(rdb)
		time.Sleep(time.Minute)
		require.ErrorIs(t, lock.Unlock(t.Context()), latchkey.ErrLeaseLost)
		last, err := once.New(locktest.NewClient(t, b.Client()), "report").Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, once.Lost, last.Outcome)
		require.Equal(t, 1, last.Attempt)
	})
}

// A timer that is a little early runs the fire for which it was set.
func TestOnceIsEarly(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		for _, d := range []time.Duration{time.Second, time.Hour} {
			l := latchkeygocron.Once(c, d)
			fire := time.Now().Truncate(time.Hour).Add(2 * time.Hour)
			time.Sleep(time.Until(fire.Add(-d/20 - 1).Add(max(0, d/20-400*time.Millisecond))))
			lock, err := l.Lock(t.Context(), d.String())
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
			last, err := once.New(c, d.String()).Last(t.Context())
			require.NoError(t, err)
			require.Equal(t, fire.Unix(), last.Fire.Unix())
		}
	})
}

// Of two machines with a Locker one runs the job at a time.
func TestLocker(t *testing.T) {
	server := redistest.Start(t)
	var at, both atomic.Int64
	ran := make(chan bool, 1000)
	for range 2 {
		l := latchkeygocron.NewLocker(locktest.NewClient(t, redistest.User(t, server.Client(t))))
		start(t, gocron.DurationJob(10*time.Millisecond), func() {
			if at.Add(1) > 1 {
				both.Add(1)
			}
			time.Sleep(6 * time.Millisecond) // the other one comes meanwhile
			at.Add(-1)
			ran <- true
		}, gocron.WithDistributedLocker(l))
	}
	for range 50 {
		<-ran
	}
	require.Zero(t, both.Load(), "two at a time")
}

func TestLockerOptions(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		l := latchkeygocron.NewLocker(locktest.NewClient(t, b.Client()), latchkey.HoldAtLeast(30*time.Second))
		lock, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		time.Sleep(20 * time.Second)
		_, err = l.Lock(t.Context(), "report")
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		time.Sleep(11 * time.Second)
		lock, err = l.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		_, err = l.Lock(t.Context(), "")
		require.ErrorContains(t, err, "no name")
	})
}

func TestLockerPanics(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		require.Panics(t, func() { latchkeygocron.NewLocker(nil) })
		require.Panics(t, func() { latchkeygocron.Once(nil, time.Minute) })
		require.Panics(t, func() { latchkeygocron.Once(c, 0) })
		require.Panics(t, func() { latchkeygocron.Once(c, time.Minute, once.Keep(0)) })
	})
}
