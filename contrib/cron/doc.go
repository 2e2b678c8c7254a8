// Package cron runs jobs of github.com/robfig/cron/v3 once for each fire, however many
// machines have the same crontab.
//
// [Once] makes a cron.JobWrapper of a job of package once. The wrapper goes by the time
// for which the schedule has the job, so it matters neither how far the clocks of the
// machines are apart nor how short the job is. With
//
//	import latchkeycron "github.com/latchkey-go/latchkey/contrib/cron"
//
// and func report(ctx context.Context, fire time.Time) error, it is used so:
//
//	c := cron.New()
//	schedule, err := cron.ParseStandard("0 3 * * *")
//	…
//	job := once.New(client, "nightly-report", once.OnFailure(once.Retry(1)))
//	wrap := latchkeycron.Once(ctx, c, schedule, job, cron.DefaultLogger)
//	c.Schedule(schedule, cron.NewChain(wrap).Then(latchkeycron.Func(report)))
//
// The commands are those of package once: one for a fire that another machine has run,
// five for one that is run here. If Redis cannot be reached, the job is not run.
package cron
