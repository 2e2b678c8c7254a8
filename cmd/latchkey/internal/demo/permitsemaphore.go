package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

var permitsemaphoreScenarios = []scenario{{"permitsemaphore", playPermits}}

// playPermits shows that permits of crashed workers come back by themselves
// when their leases end, not earlier, and that all permits are back at the end.
func playPermits(ctx context.Context, st *stage.Stage) (err error) {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	sems := make([]*permitsemaphore.Semaphore, len(cs))
	for i, c := range cs {
		sems[i] = permitsemaphore.New(c, "permits")
	}
	st.Used(st.Key("permits"))
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
	var out sync.Map // ids of permits
	err = st.Compete(ctx, func(ctx context.Context, worker int) error {
		sem := sems[worker%len(sems)]
		crash := worker == 0
		p, err := acquirePermit(ctx, st, sem, crash)
		if errors.Is(err, latchkey.ErrLeaseLost) {
			return nil // the machine stood still for a lease; there is another turn
		} else if err != nil {
			return err
		}
		_, there := out.LoadOrStore(p.ID(), true)
		st.Violated(!there)
		r.enter(1)
		if crash {
			<-p.Lost() // the worker neither renews nor releases
		}
		r.leave(1)
		out.Delete(p.ID())
		if crash {
			return nil
		}
		return p.Release(ctx)
	})
	if err != nil {
		return err
	}
	return allBack(ctx, st, sems[0], r.places)
}

func acquirePermit(ctx context.Context, st *stage.Stage, sem *permitsemaphore.Semaphore, crash bool) (p *permitsemaphore.Permit, err error) {
	var opts []latchkey.LockOption
	if crash {
		opts = append(opts, latchkey.Lease(crashLease))
	}
	err = st.Acquired(func() error {
		p, err = sem.Acquire(ctx, opts...)
		return err
	})
	return p, err
}

// allBack checks that all permits become available again. The last lease ends a
// little after its holder has stopped trusting it, by the time that the request
// was on its way.
func allBack(ctx context.Context, st *stage.Stage, sem *permitsemaphore.Semaphore, n int) error {
	for since := time.Now(); ; {
		left, err := sem.AvailablePermits(ctx)
		if err != nil || left == n {
			return err
		}
		if time.Since(since) > stage.Grace {
			st.Violated(false)
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
