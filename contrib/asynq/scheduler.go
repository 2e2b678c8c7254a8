package asynq

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/latchkey-go/latchkey/elect"
)

// RunScheduler runs a scheduler whenever the candidate e leads, until ctx is done; see
// [elect.Election.Run] for its errors. It calls create for each term, since a scheduler
// that was shut down does not start again; create registers the tasks. An error of
// create or of the scheduler's Start ends RunScheduler. It panics if an argument is nil.
//
// A scheduler is shut down when its term ends, and the next one starts where it leads:
// a time of the schedule at which nobody leads is skipped.
func RunScheduler(ctx context.Context, e *elect.Election, create func() (*asynq.Scheduler, error)) error {
	switch {
	case ctx == nil:
		panic("asynq: RunScheduler: the context is nil")
	case e == nil:
		panic("asynq: RunScheduler: the election is nil")
	case create == nil:
		panic("asynq: RunScheduler: the function is nil")
	}
	return e.Run(ctx, func(term context.Context, _ elect.Term) error {
		s, err := create()
		if err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-term.Done()
		s.Shutdown()
		return nil
	})
}
