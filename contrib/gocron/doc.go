// Package gocron lets schedulers of github.com/go-co-op/gocron/v2 on many machines share
// their jobs. It has three ways to do so:
//
//   - [Once] runs a job once in each period. It goes by the time of the period, so it
//     matters neither how far the clocks of the machines are apart nor how short the job
//     is, and the last runs are known.
//   - [NewLocker] runs a job on one machine at a time, under a lock.
//   - [NewElector] runs all jobs on the machine that leads.
//
// Give each job a name with gocron.WithName: it is the name in Redis, for a Locker.
// gocron gives a job no context that ends with its lock. Where two runs of a job beside
// each other do harm, call [once.Job.Do] or [latchkey.Do] in the job instead.
package gocron
