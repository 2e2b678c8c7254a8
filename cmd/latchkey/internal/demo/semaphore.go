package demo

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/semaphore"
)

var semaphoreScenarios = []scenario{{"semaphore", playSemaphore}}

// playSemaphore shows that no more permits are out than exist, though some
// workers take two at once, and that all are back at the end.
func playSemaphore(ctx context.Context, st *stage.Stage) (err error) {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	sems := make([]*semaphore.Semaphore, len(cs))
	for i, c := range cs {
		sems[i] = semaphore.New(c, "semaphore")
	}
	st.Used(st.Key("semaphore"))
	r := room{st: st, places: 4}
	set, err := sems[0].TrySetPermits(ctx, r.places)
	if err != nil {
		return err
	}
	st.Violated(set)
	defer func() {
		_, derr := sems[0].Delete(context.WithoutCancel(ctx))
		err = errors.Join(err, derr)
	}()
	err = st.Compete(ctx, func(ctx context.Context, worker int) error {
		sem, n := sems[worker%len(sems)], 1+worker%2
		if err := st.Acquired(func() error { return sem.Acquire(ctx, n) }); err != nil {
			return err
		}
		r.enter(n)
		r.leave(n)
		return sem.Release(ctx, n)
	})
	if err != nil {
		return err
	}
	left, err := sems[0].AvailablePermits(ctx)
	st.Violated(err != nil || left == r.places)
	return err
}

// A room is a section for a limited number of workers.
type room struct {
	st     *stage.Stage
	places int
	inside atomic.Int64
	visits atomic.Int64
}

// enter takes n places and stays for a moment.
func (r *room) enter(n int) {
	r.st.Violated(r.inside.Add(int64(n)) <= int64(r.places))
	work(r.visits.Add(1))
}

func (r *room) leave(n int) { r.inside.Add(int64(-n)) }
