package cron_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	latchkeycron "github.com/latchkey-go/latchkey/contrib/cron"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/once"
)

// log keeps the errors that the wrapper reports.
type log struct {
	mu     sync.Mutex
	errors []error
}

func (*log) Info(string, ...any) {}

func (l *log) Error(err error, _ string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

func (l *log) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errors
}

// late is the schedule of a machine whose clock is behind.
type late struct {
	cron.Schedule
	by time.Duration
}

func (l late) Next(t time.Time) time.Time { return l.Schedule.Next(t.Add(-l.by)).Add(l.by) }

func parse(t *testing.T, spec string) cron.Schedule {
	t.Helper()
	s, err := cron.ParseStandard(spec)
	require.NoError(t, err)
	return s
}

// start starts a cron with one job; it ends with the test.
func start(t *testing.T, c *cron.Cron, s cron.Schedule, wrap cron.JobWrapper, job cron.Job) {
	t.Helper()
	c.Schedule(s, cron.NewChain(wrap).Then(job))
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// Three machines whose clocks are 20 s apart: each fire is run once.
func TestOnce(t *testing.T) {
	for _, spec := range []string{"* * * * *", "@every 1m"} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			const fires = 1000
			var mu sync.Mutex
			runs := map[int64]int{}
			errs := &log{}
			first := time.Now().Truncate(time.Minute).Add(time.Minute)
			time.Sleep(time.Until(first.Add(5 * time.Second)))
			for i := range 3 {
				c, s := cron.New(), parse(t, spec)
				job := once.New(locktest.NewClient(t, b.Client()), "report")
				start(t, c, late{s, time.Duration(i) * 20 * time.Second}, latchkeycron.Once(t.Context(), c, s, job, errs),
					latchkeycron.Func(func(_ context.Context, fire time.Time) error {
						mu.Lock()
						defer mu.Unlock()
						runs[fire.Unix()]++
						return nil
					}))
				time.Sleep(10 * time.Second) // for @every, which goes by this
			}
			time.Sleep(time.Until(first.Add(fires*time.Minute + 59*time.Second)))
			mu.Lock()
			defer mu.Unlock()
			require.Empty(t, errs.all())
			for i := range fires {
				fire := first.Add(time.Duration(i+1) * time.Minute)
				require.Equal(t, 1, runs[fire.Unix()], "%v", fire)
			}
		})
	}
}

// The fire is that of the schedule, in the location of the cron.
func TestFire(t *testing.T) {
	tokyo := time.FixedZone("Tokyo", 9*60*60)
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		now := time.Now().UTC() // the first of January, 2000
		for _, c := range []struct {
			spec string
			want time.Time
		}{
			{"* * * * *", now.Truncate(time.Minute)},
			{"30 3 * * *", time.Date(1999, 12, 31, 18, 30, 0, 0, time.UTC)},
			{"CRON_TZ=UTC 30 3 * * *", time.Date(1999, 12, 31, 3, 30, 0, 0, time.UTC)},
			{"0 0 29 2 *", time.Date(1996, 2, 28, 15, 0, 0, 0, time.UTC)},
			{"@every 7s", now.Truncate(7 * time.Second)},
		} {
			cr := cron.New(cron.WithLocation(tokyo))
			errs := &log{}
			job := once.New(locktest.NewClient(t, b.Client()), c.spec, once.Keep(24*time.Hour))
			wrap := latchkeycron.Once(t.Context(), cr, parse(t, c.spec), job, errs)
			ran := 0
			for range 2 {
				wrap(cron.FuncJob(func() { ran++ })).Run()
			}
			require.Empty(t, errs.all())
			require.Equal(t, 1, ran, c.spec)
			last, err := job.Last(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, last.Fire.UTC(), "%s at %v", c.spec, now)
		}
		wrap := latchkeycron.Once(t.Context(), cron.New(), parse(t, "0 0 30 2 *"), once.New(locktest.NewClient(t, b.Client()), "never"), &log{})
		wrap(cron.FuncJob(func() { t.Error("30 February") })).Run()
	})
}

// An error of a Func is that of the run, and is logged; a Func stops when the context does.
func TestFunc(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, s, errs := cron.New(), parse(t, "* * * * *"), &log{}
		job := once.New(locktest.NewClient(t, b.Client()), "report")
		wrap := latchkeycron.Once(ctx, c, s, job, errs)
		noPaper := errors.New("no paper")
		wrap(latchkeycron.Func(func(context.Context, time.Time) error { return noPaper })).Run()
		require.Len(t, errs.all(), 1)
		require.ErrorIs(t, errs.all()[0], noPaper)
		last, err := job.Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, once.Failed, last.Outcome)

		time.Sleep(time.Minute)
		time.AfterFunc(time.Hour, cancel)
		begin := time.Now()
		wrap(latchkeycron.Func(func(ctx context.Context, _ time.Time) error {
			<-ctx.Done()
			return ctx.Err()
		})).Run()
		require.Equal(t, time.Hour, time.Since(begin))
		require.ErrorIs(t, errs.all()[1], context.Canceled)

		ran := false
		latchkeycron.Func(func(ctx context.Context, _ time.Time) error { ran = true; return ctx.Err() }).Run()
		require.True(t, ran, "without a wrapper")
	})
}

func TestOncePanics(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx, c, s, l := t.Context(), cron.New(), parse(t, "@daily"), cron.DiscardLogger
		job := once.New(locktest.NewClient(t, b.Client()), "report")
		for i, f := range []func(){
			func() { latchkeycron.Once(nil, c, s, job, l) }, //nolint:staticcheck // a nil context is the case
			func() { latchkeycron.Once(ctx, nil, s, job, l) },
			func() { latchkeycron.Once(ctx, c, nil, job, l) },
			func() { latchkeycron.Once(ctx, c, s, nil, l) },
			func() { latchkeycron.Once(ctx, c, s, job, nil) },
		} {
			require.Panics(t, f, fmt.Sprint(i))
		}
	})
}
