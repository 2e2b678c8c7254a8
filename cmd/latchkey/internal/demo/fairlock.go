package demo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/fairlock"
)

var fairlockScenarios = []scenario{{"fairlock", playFair}}

// playFair makes one worker in each round hold the lock until all others are
// queued. Then the others get it in the order of the queue, across all clients.
func playFair(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	locks := make([]*fairlock.Lock, len(cs))
	for i, c := range cs {
		locks[i] = fairlock.New(c, "fair")
	}
	st.Used(st.Key("fair"))
	s := newSection(st)
	for round := 0; err == nil && (round == 0 || !st.Over()); round++ {
		err = fairRound(ctx, st, s, locks, round)
	}
	s.settle()
	return err
}

func fairRound(ctx context.Context, st *stage.Stage, s *section, locks []*fairlock.Lock, round int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := round % st.Workers
	h, err := st.Lock(ctx, locks[first%len(locks)])
	if err != nil {
		return err
	}
	var served []string // only the holder of the lock writes it
	var wg sync.WaitGroup
	for w := range st.Workers {
		if w == first {
			continue
		}
		wg.Go(func() {
			h, err := st.Lock(ctx, locks[w%len(locks)])
			if err != nil {
				cancel(err)
				return
			}
			v := s.enter()
			served = append(served, h.HolderID())
			s.leave(v)
			if err := h.Unlock(ctx); err != nil {
				cancel(err)
			}
		})
	}
	queue, err := queued(ctx, locks[0], st.Workers-1)
	err = errors.Join(err, h.Unlock(ctx))
	if err != nil {
		cancel(err)
	}
	wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	st.Violated(err != nil || slices.Equal(served, queue))
	return err
}

// queued waits until n waiters are in the queue of a lock, and returns them.
func queued(ctx context.Context, l *fairlock.Lock, n int) (ids []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stage.Grace, errors.New("the workers do not queue"))
	defer cancel()
	for {
		waiters, err := l.Waiters(ctx)
		if err != nil {
			return nil, err
		}
		if len(waiters) == n {
			for _, w := range waiters {
				ids = append(ids, w.ID)
			}
			return ids, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
