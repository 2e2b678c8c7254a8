package once_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/once"
)

var errJob = errors.New("no paper")

func nothing(context.Context) error { return nil }

// do calls Do, which must return without an error, and returns whether it ran.
func do(t *testing.T, j *once.Job, fire time.Time, fn func(context.Context) error) bool {
	t.Helper()
	ran, err := j.Do(t.Context(), fire, fn)
	require.NoError(t, err)
	return ran
}

func last(t *testing.T, j *once.Job) once.Run {
	t.Helper()
	r, err := j.Last(t.Context())
	require.NoError(t, err)
	return r
}

// Three machines whose clocks are 30 s apart run a job of 10 ms once a minute: each of a
// thousand fires is run exactly once.
func TestOncePerFire(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		const fires = 1000
		start := time.Now().Truncate(time.Minute)
		runs := map[int64]int{}
		var mu sync.Mutex
		var machines sync.WaitGroup
		for i := range 3 {
			job := once.New(locktest.NewClient(t, b.Client()), "report", once.Jitter(time.Second))
			behind := time.Duration(i) * 30 * time.Second
			machines.Go(func() {
				for n := range fires {
					fire := start.Add(time.Duration(n) * time.Minute)
					time.Sleep(time.Until(fire.Add(behind)))
					ran, err := job.Do(t.Context(), fire, func(context.Context) error {
						mu.Lock()
						runs[fire.UnixMilli()]++
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						return nil
					})
					_ = ran
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		machines.Wait()
		require.Len(t, runs, fires)
		for fire, n := range runs {
			require.Equal(t, 1, n, fire)
		}
	})
}

func TestRecords(t *testing.T) { onBoth(t, testRecords) }

// onBoth runs f in fake time and on a real server.
func onBoth(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Run("FakeTime", func(t *testing.T) {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) { f(t, b.Client()) })
	})
	t.Run("Redis", func(t *testing.T) { f(t, redistest.Start(t).Client(t)) })
}

func testRecords(t *testing.T, rdb redis.UniversalClient) {
	ctx := t.Context()
	for _, name := range []string{"report", "{report}", "a b{c}d"} {
		c := locktest.NewClient(t, rdb)
		job := once.New(c, name, once.Label("ann"), once.Keep(time.Hour))
		require.Equal(t, name, job.Name())
		_, err := job.Last(ctx)
		require.ErrorIs(t, err, once.ErrNoRun)
		runs, err := job.Runs(ctx, 20)
		require.NoError(t, err)
		require.Empty(t, runs)

		first, second := time.UnixMilli(1_800_000_000_000), time.UnixMilli(1_800_000_060_000)
		require.True(t, do(t, job, second, func(ctx context.Context) error {
			r := last(t, job)
			require.Equal(t, once.Running, r.Outcome)
			require.Zero(t, r.Ended)
			require.False(t, do(t, job, second, nothing), "it is under way")
			return nil
		}))
		r := last(t, job)
		require.Equal(t, once.Done, r.Outcome)
		require.Equal(t, "ann", r.Label)
		require.Positive(t, r.PID)
		require.NotEmpty(t, r.Host)
		require.Equal(t, 1, r.Attempt)
		require.False(t, r.Ended.Before(r.Started))
		require.True(t, second.Equal(r.Fire))
		require.False(t, do(t, job, second.Add(time.Microsecond), nothing), "the same millisecond")

		time.Sleep(2 * time.Millisecond) // runs are in order to the millisecond
		ran, err := job.Do(ctx, first, func(context.Context) error { return errJob })
		require.ErrorIs(t, err, errJob)
		require.True(t, ran)
		require.False(t, do(t, job, first, nothing), "it is not run again")
		require.Equal(t, once.Failed, last(t, job).Outcome, "it has ended last")
		require.Equal(t, "no paper", last(t, job).Err)
		runs, err = job.Runs(ctx, 20)
		require.NoError(t, err)
		require.Len(t, runs, 2)
		require.True(t, runs[0].Fire.Equal(second))
		require.True(t, runs[1].Fire.Equal(first))
		for _, key := range rdb.Keys(ctx, "*").Val() {
			left := rdb.PTTL(ctx, key).Val()
			require.Positive(t, left, key)
			require.LessOrEqual(t, left, time.Hour, key)
			require.False(t, strings.Contains(key, "latchkey_once"), "no lock is left: %s", key)
		}
		require.NoError(t, c.Close())
	}
	require.Len(t, rdb.Keys(ctx, "*").Val(), 9, "each name has keys of its own")
}

// A panic is noted, and goes on.
func TestPanic(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		job := once.New(locktest.NewClient(t, b.Client()), "report")
		require.PanicsWithValue(t, "no ink", func() {
			_, _ = job.Do(t.Context(), time.Now(), func(context.Context) error { panic("no ink") })
		})
		require.Equal(t, once.Failed, last(t, job).Outcome)
	})
}

// With Retry those who wait run the fire again, up to that many times.
func TestRetry(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		fire := time.Now()
		var calls atomic.Int32
		var machines sync.WaitGroup
		var failed, ran atomic.Int32
		for range 3 {
			job := once.New(locktest.NewClient(t, b.Client()), "report", once.OnFailure(once.Retry(2)))
			machines.Go(func() {
				did, err := job.Do(t.Context(), fire, func(context.Context) error {
					calls.Add(1)
					time.Sleep(time.Minute)
					return errJob
				})
				if did {
					ran.Add(1)
				}
				if err != nil {
					failed.Add(1)
				}
			})
		}
		machines.Wait()
		require.EqualValues(t, 3, calls.Load())
		require.Equal(t, ran.Load(), failed.Load(), "who ran it says why it failed")
		job := once.New(locktest.NewClient(t, b.Client()), "report", once.OnFailure(once.Retry(2)))
		require.Equal(t, 3, last(t, job).Attempt)
		require.Equal(t, once.Failed, last(t, job).Outcome)
	})
}

// A caller that waits for the end of a run does not run it again once it is done.
func TestRetryOfADoneFire(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		fire := time.Now()
		var machines sync.WaitGroup
		var ran atomic.Int32
		for range 3 {
			job := once.New(locktest.NewClient(t, b.Client()), "report", once.OnFailure(once.Retry(2)))
			machines.Go(func() {
				did, err := job.Do(t.Context(), fire, func(context.Context) error {
					time.Sleep(time.Minute)
					return nil
				})
				if did {
					ran.Add(1)
				}
				assert.NoError(t, err)
			})
		}
		machines.Wait()
		require.EqualValues(t, 1, ran.Load())
	})
}

// A holder does not run a job within itself: not the same fire again, nor another one
// beside it with NoOverlap.
func TestReentry(t *testing.T) {
	for _, c := range []struct {
		opt   once.Option
		later time.Duration
	}{{once.OnFailure(once.Retry(1)), 0}, {once.NoOverlap(), time.Minute}} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			job := once.New(locktest.NewClient(t, b.Client()), "report", c.opt)
			fire := time.Now()
			require.True(t, do(t, job, fire, func(ctx context.Context) error {
				ran, err := job.Do(ctx, fire.Add(c.later), nothing)
				require.ErrorIs(t, err, latchkey.ErrReentry)
				require.False(t, ran)
				return nil
			}))
			require.Equal(t, once.Done, last(t, job).Outcome)
		})
	}
}

// Attempts whose ends cannot be noted count, though one holder has the lock for all of
// them: it is handed from one to the next in memory.
func TestAttemptsOfOneHolder(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		c := locktest.NewClient(t, rdb, latchkey.WithHandOver(time.Hour))
		b.Link(rdb).OnCommand(func(args []string) redistest.Act {
			if slices.Contains(args, "failed") {
				return redistest.RefuseRST
			}
			return redistest.Pass
		})
		fire := time.Now()
		var calls atomic.Int32
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				_, _ = once.New(c, "report", once.OnFailure(once.Retry(1))).Do(t.Context(), fire, func(context.Context) error {
					calls.Add(1)
					time.Sleep(time.Second)
					return errJob
				})
			})
		}
		callers.Wait()
		require.EqualValues(t, 2, calls.Load())
	})
}

// A machine alone runs it again, too; once it is done, the errors before are forgotten.
func TestRetryAlone(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		job := once.New(locktest.NewClient(t, b.Client()), "report", once.OnFailure(once.Retry(2)))
		calls := 0
		require.True(t, do(t, job, time.Now(), func(context.Context) error {
			if calls++; calls < 3 {
				return errJob
			}
			return nil
		}))
		require.Equal(t, 3, calls)
		require.Equal(t, once.Done, last(t, job).Outcome)
		require.Empty(t, last(t, job).Err)
	})
}

// A machine that can no longer reach Redis learns that it has lost the run; another one
// runs the fire again, exactly once with Retry, and not with Skip. The first one cannot
// note that it is done.
func TestLost(t *testing.T) {
	for name, policy := range map[string]once.Policy{"skip": once.Skip, "retry": once.Retry(1)} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				cut := b.Client()
				first := once.New(locktest.NewClient(t, cut), "report", once.OnFailure(policy))
				second := once.New(locktest.NewClient(t, b.Client()), "report", once.OnFailure(policy))
				fire := time.Now()
				var firstErr error
				var ended time.Time
				var machines sync.WaitGroup
				machines.Go(func() {
					_, firstErr = first.Do(t.Context(), fire, func(ctx context.Context) error {
						b.Link(cut).OnCommand(func([]string) redistest.Act { return redistest.Drop })
						<-ctx.Done()
						assert.ErrorIs(t, context.Cause(ctx), latchkey.ErrLeaseLost)
						time.Sleep(time.Minute) // until Redis lets others in, too
						b.Link(cut).OnCommand(nil)
						ended = time.Now()
						return nil
					})
					assert.Less(t, time.Since(ended), time.Second, "Redis is asked for the end once")
				})
				synctest.Wait()
				time.Sleep(time.Second)
				begun := time.Now()
				ran := do(t, second, fire, nothing)
				require.Equal(t, name == "retry", ran)
				waited := time.Since(begun)
				machines.Wait()
				require.ErrorIs(t, firstErr, latchkey.ErrLeaseLost)
				if ran {
					require.LessOrEqual(t, waited, 31*time.Second, "the lease, and little more")
					require.Equal(t, once.Done, last(t, second).Outcome)
					require.Equal(t, 2, last(t, second).Attempt)
				} else {
					require.Equal(t, once.Lost, last(t, second).Outcome)
				}
			})
		})
	}
}

// With NoOverlap a fire waits for the end of the one before; without, it does not.
func TestNoOverlap(t *testing.T) {
	for _, opts := range [][]once.Option{nil, {once.NoOverlap()}} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			var machines sync.WaitGroup
			start := time.Now()
			ends := make([]time.Duration, 3)
			for i := range ends {
				job := once.New(locktest.NewClient(t, b.Client()), "report", opts...)
				machines.Go(func() {
					_, err := job.Do(t.Context(), start.Add(time.Duration(i)*time.Second), func(context.Context) error {
						time.Sleep(time.Minute)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					ends[i] = time.Since(start)
				})
				synctest.Wait()
			}
			machines.Wait()
			for i, d := range ends {
				want := time.Minute
				if opts != nil {
					want = time.Duration(i+1) * time.Minute
				}
				require.InDelta(t, want, d, float64(time.Second))
			}
		})
	}
}

// One need not know the options of a job to see that it runs.
func TestRunningSeenByOthers(t *testing.T) {
	for _, opts := range [][]once.Option{nil, {once.NoOverlap()}} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			c := locktest.NewClient(t, b.Client())
			require.True(t, do(t, once.New(c, "report", opts...), time.Now(), func(context.Context) error {
				for _, looks := range [][]once.Option{nil, {once.NoOverlap()}} {
					require.Equal(t, once.Running, last(t, once.New(c, "report", looks...)).Outcome)
				}
				return nil
			}))
		})
	}
}

func TestNotLaterThan(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		job := once.New(locktest.NewClient(t, b.Client()), "report", once.NotLaterThan(time.Minute))
		ran, err := job.Do(t.Context(), time.Now().Add(-2*time.Minute), nothing)
		require.ErrorIs(t, err, once.ErrLate)
		require.False(t, ran)
		require.True(t, do(t, job, time.Now().Add(-time.Minute+time.Second), nothing))
		require.Len(t, b.Redis.Keys(t.Context(), "*").Val(), 2, "who came too late leaves nothing")
	})
}

// AtMost ends the context of a run.
func TestAtMost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		job := once.New(locktest.NewClient(t, b.Client()), "report", once.AtMost(time.Minute))
		start := time.Now()
		_, err := job.Do(t.Context(), start, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
		require.Equal(t, once.Failed, last(t, job).Outcome, "it was noted in time")
	})
}

// A reply that is lost, and a request that is carried out twice, do no harm.
func TestLostReplies(t *testing.T) {
	for _, act := range []redistest.Act{redistest.LoseRST, redistest.Twice} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			for lost := range 16 { // what sets up a connection is among them
				conn := b.Client()
				job := once.New(locktest.NewClient(t, conn), "report", once.OnFailure(once.Retry(1)))
				n := 0
				b.Link(conn).OnCommand(func(args []string) redistest.Act {
					if n++; n == lost+1 {
						return act
					}
					return redistest.Pass
				})
				calls := 0
				require.True(t, do(t, job, time.Now().Add(time.Duration(lost)*time.Hour), func(context.Context) error { calls++; return nil }), lost)
				require.Equal(t, 1, calls)
				require.Equal(t, once.Done, last(t, job).Outcome)
				require.Equal(t, 1, last(t, job).Attempt)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		job := once.New(c, "report")
		for _, fire := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(1 << 53)} {
			_, err := job.Do(t.Context(), fire, nothing)
			require.ErrorContains(t, err, "is no time of a job")
		}
		for _, n := range []int{-1, 1001} {
			_, err := job.Runs(t.Context(), n)
			require.ErrorContains(t, err, "the most is 1000")
		}
		for text, opt := range map[string]once.Option{
			"AtMost of 1ms": once.AtMost(time.Millisecond), "Keep of 1ms": once.Keep(time.Millisecond), "NotLaterThan of 0s": once.NotLaterThan(0),
			"Jitter of -1ns": once.Jitter(-1), "Retry needs": once.OnFailure(once.Retry(0)),
		} {
			require.Contains(t, panicWith(func() { once.New(c, "report", opt) }), text)
		}
		require.Contains(t, panicWith(func() { once.New(nil, "report") }), "nil")
		require.Contains(t, panicWith(func() { once.New(c, "") }), "empty")
	})
}

func panicWith(f func()) (text any) {
	defer func() { text = recover() }()
	f()
	return nil
}

// The keys of a job are in one slot of a cluster; a name for which they are not is
// refused.
func TestCluster(t *testing.T) {
	rdb := redistest.StartCluster(t, 2).Client(t)
	c := locktest.NewClient(t, rdb)
	for _, name := range []string{"report", "{report}", "a b{c}d"} {
		for _, opts := range [][]once.Option{nil, {once.NoOverlap()}} {
			job, fire := once.New(c, name, opts...), time.UnixMilli(1_800_000_000_000+int64(len(opts)))
			require.True(t, do(t, job, fire, nothing))
			require.False(t, do(t, job, fire, nothing))
			require.Equal(t, once.Done, last(t, job).Outcome)
		}
	}
	_, err := once.New(c, "a{b").Do(t.Context(), time.Now(), nothing)
	require.ErrorContains(t, err, "cannot be used in a Redis Cluster")
}
