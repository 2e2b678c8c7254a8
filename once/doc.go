// Package once runs a job once for each scheduled time, however many machines schedule
// it.
//
// A fire is a time for which a job is scheduled. Every machine calls Do with the same
// fire, and one of them runs the job:
//
//	job := once.New(client, "nightly-report", once.OnFailure(once.Retry(1)))
//	ran, err := job.Do(ctx, once.Every(24*time.Hour), func(ctx context.Context) error {
//		return report(ctx)
//	})
//
// Redis has a record for each fire, to the millisecond. So it matters neither how short
// the job is nor how far the clocks of the machines are apart: a machine that comes
// later finds the record. A function that needs the fire takes it from the variable
// that Do was called with.
//
// # What is promised
//
// While Redis keeps its data, and the record of a fire (Keep), no two runs of the fire
// go on at a time, and none begins after one that is done. A run is done when its function has returned nil and Redis
// has noted that.
//
// By default (Skip) a run that fails, or whose process dies, is not repeated. With
// Retry, every Do for that fire waits for the end of the run, and one of them runs the
// fire again. As long as one of their processes lives, the fire is done in the end, or
// given up after that many retries. A run whose end Redis could not note is repeated,
// too: let the job bear that.
//
// A process that is paused for longer than its lease may still be at work when the next
// attempt begins. Its context is done, and it cannot note its end.
//
// If Redis cannot be reached, Do returns an error and does not call the function. It can
// be called again for the same fire. If Redis loses data (a failover, a restart without
// persistence), a fire may be run again, and earlier runs are forgotten.
//
// # What else there is
//
// The command latchkey run --once-per does this for a line of a crontab, and the modules
// contrib/cron and contrib/gocron do it for those schedulers. Where runs have no
// scheduled time, and only have to be some time apart, a lock with
// latchkey.HoldAtLeast is enough. Where one process does all the work, use package elect.
//
// # Keys and round trips
//
// All keys of a job have the hash slot of its name:
//
//	{name}:latchkey_once:<fire, ms>  the lock of a fire: that of package rlock
//	{name}:latchkey_once             the lock for all fires, with NoOverlap: that of
//	                                 package fairlock
//	{name}:latchkey_run:<fire, ms>   a hash: how the run went; it expires after Keep
//	{name}:latchkey_runs             a sorted set of the fires; it expires after Keep
//
// A Do that runs the job takes five commands: it asks for the run, acquires, begins,
// notes the end and releases. One that finds that the fire was run takes one.
package once
