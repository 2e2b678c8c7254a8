// Package asynq lets schedulers and servers of github.com/hibiken/asynq on many machines
// work together:
//
//   - [RunScheduler] runs a scheduler on the machine that leads, so that a periodic task
//     is enqueued by one.
//   - [Unique] is a middleware: of the tasks with one key, one is processed at a time.
package asynq
