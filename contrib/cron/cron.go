package cron

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/latchkey-go/latchkey/once"
)

// A Func is a cron.Job that is told its fire, and by its context when to stop.
type Func func(ctx context.Context, fire time.Time) error

// Run calls f where no wrapper of Once does: its context has no end, its fire is now, and
// its error is dropped.
func (f Func) Run() { _ = f(context.Background(), time.Now()) }

// Once returns a wrapper that runs a job of c once for each fire of schedule, on one of
// the machines that have it. It panics if an argument is nil.
//
// A fire is the last time at or before now at which schedule has the job, in the
// location of c. With "@every d" each machine counts from its start, so the fires are the
// whole multiples of d instead, as those of [once.Every].
//
// The wrapped job runs as in [once.Job.Do], and log gets the error of Do. If the job is a
// Func, its context is done when ctx is, when the lock is lost, and when once.AtMost is
// over, and its error is that of the run. A job of another type counts as done when its
// Run returns. The Run of the wrapper returns as Do does. Put Once before wrappers that
// delay a job: after a delay the fire may be the next one.
func Once(ctx context.Context, c *cron.Cron, schedule cron.Schedule, job *once.Job, log cron.Logger) cron.JobWrapper {
	switch {
	case ctx == nil:
		panic("cron: Once: the context is nil")
	case c == nil:
		panic("cron: Once: the cron.Cron is nil")
	case schedule == nil:
		panic("cron: Once: the schedule is nil")
	case job == nil:
		panic("cron: Once: the job is nil")
	case log == nil:
		panic("cron: Once: the logger is nil")
	}
	return func(wrapped cron.Job) cron.Job {
		work, ok := wrapped.(Func)
		if !ok {
			work = func(context.Context, time.Time) error {
				wrapped.Run()
				return nil
			}
		}
		return cron.FuncJob(func() {
			fire, ok := last(schedule, time.Now().In(c.Location()))
			if !ok { // the clock was set back since cron looked at it
				log.Info("skip: the schedule has no time before now", "job", job.Name())
				return
			}
			run := func(ctx context.Context) error { return work(ctx, fire) }
			if _, err := job.Do(ctx, fire, run); err != nil {
				log.Error(err, "run", "job", job.Name(), "fire", fire)
			}
		})
	}
}

// longest is how far back last looks: the distance of 29 February from the one before.
const longest = 8 * 366 * 24 * time.Hour

// last returns the last time of a schedule at or before now.
func last(schedule cron.Schedule, now time.Time) (fire time.Time, ok bool) {
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return now.Truncate(every.Delay), true
	}
	for back := time.Second; back <= 2*longest; back *= 2 {
		next := schedule.Next(now.Add(-back))
		for ; !next.IsZero() && !next.After(now); next = schedule.Next(next) {
			fire, ok = next, true
		}
		if ok {
			return fire, true
		}
	}
	return time.Time{}, false
}
