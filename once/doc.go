// Package once runs a job once for each fire, however many machines schedule it.
//
// A fire is a time for which a job is scheduled. Every scheduler calls Do with the
// same fire, and one of them runs the job:
//
//	job := once.New(client, "nightly-report", once.OnFailure(once.Retry(1)))
//	ran, err := job.Do(ctx, once.Every(24*time.Hour), func(ctx context.Context) error {
//		return report(ctx)
//	})
//
// The identity of a run is the name of the job and the fire, to the millisecond. So
// it matters neither how long the job takes nor how far the clocks of the machines
// are apart: who comes later finds that the fire was run. That a run is done is
// written only while its lock is held.
//
// # What is promised
//
// While Redis keeps its data, a fire has at most one completed run, and never two at
// a time. By default a run that fails, or whose process dies, is not run again: Skip.
// With Retry, the schedulers that called Do for the fire wait for its end, and one of
// them runs it again; if any of them lives, the fire is run to its end or given up
// after that many attempts. A process that is paused for longer than its lease may
// still be at work while the next one begins; its context is done, and it cannot note
// that it is done.
//
// If Redis loses data (a failover, a restart without persistence), a fire may be run
// again, and the runs before are forgotten.
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
