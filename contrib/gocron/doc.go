// Package gocron lets schedulers of github.com/go-co-op/gocron/v2 on many machines share
// their jobs. It has three ways to do so:
//
//   - [Once] runs a job once in each period. It goes by the time of the period, so it
//     matters neither how far the clocks of the machines are apart nor how short the job
//     is, and the last runs are known.
//   - [NewLocker] runs a job on one machine at a time, under a lock, and keeps no record.
//   - [NewElector] runs all jobs on the machine that leads.
//
// Use Once for a job with a fixed period, NewLocker for one without, and NewElector where
// one machine is to do everything. With a Locker, give each job a name by
// gocron.WithName: it is the name in Redis. If Redis cannot be reached, or another machine
// has the job, the run is skipped, and gocron calls AfterLockError with the error.
//
// gocron tells a job neither its fire nor that its lock is lost. A job that needs to know
// either calls [once.Job.Do] or [latchkey.Do] itself, without a Locker.
package gocron
