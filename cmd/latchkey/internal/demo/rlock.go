package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/rlock"
)

var rlockScenarios = []scenario{
	{"rlock", playContended},
	{"rlock fenced", playFenced},
	{"rlock spin", playSpin},
	{"rlock reentrant", playReentrant},
	{"rlock crash", playCrash},
	{"rlock forced", playForced},
}

// locks returns a lock with that name for each worker. The workers of one
// client share a lock.
func locks(st *stage.Stage, name string, cs []*latchkey.Client, opts ...rlock.Option) func(worker int) *rlock.Lock {
	ls := make([]*rlock.Lock, len(cs))
	for i, c := range cs {
		ls[i] = rlock.New(c, name, opts...)
	}
	st.Used(st.Key(name))
	return func(worker int) *rlock.Lock { return ls[worker%len(ls)] }
}

// playTurns makes all workers take one lock in turn. held, unless nil, is
// called while a worker holds it.
func playTurns(ctx context.Context, st *stage.Stage, name string, held func(*latchkey.Hold), opts ...rlock.Option) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	lock := locks(st, name, cs, opts...)
	s := newSection(st)
	err = st.Compete(ctx, func(ctx context.Context, worker int) error {
		h, err := st.Lock(ctx, lock(worker))
		if err != nil {
			return err
		}
		v := s.enter()
		if held != nil {
			held(h)
		}
		s.work()
		s.leave(v)
		return h.Unlock(ctx)
	})
	s.settle()
	return err
}

// playContended shows that there is one holder at a time, across all clients.
func playContended(ctx context.Context, st *stage.Stage) error {
	return playTurns(ctx, st, "contended", nil)
}

// playFenced shows that each token is greater than the one before.
func playFenced(ctx context.Context, st *stage.Stage) error {
	st.Kept(names.Token(st.Key("fenced")))
	var last atomic.Int64
	return playTurns(ctx, st, "fenced", func(h *latchkey.Hold) {
		st.Violated(last.Swap(h.Token()) < h.Token())
	}, rlock.Fenced())
}

// playSpin is playContended with waiters that poll.
func playSpin(ctx context.Context, st *stage.Stage) error {
	return playTurns(ctx, st, "spin", nil, rlock.Spin(rlock.Backoff{}))
}

// playReentrant makes each worker a holder, as a Java thread is. The worker
// takes the lock a second time while it holds it, and still holds it between
// its two unlocks.
func playReentrant(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	lock := locks(st, "reentrant", cs)
	holders := make([]context.Context, st.Workers)
	for i := range holders {
		holders[i] = latchkey.WithHolder(context.Background())
	}
	s := newSection(st)
	err = st.Compete(ctx, func(ctx context.Context, worker int) error {
		l := lock(worker)
		me, cancel := context.WithCancelCause(holders[worker])
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		if _, err := st.Lock(me, l); err != nil {
			return err
		}
		v := s.enter()
		err := reenter(me, st, l)
		s.work()
		s.leave(v)
		return errors.Join(err, l.Unlock(me))
	})
	s.settle()
	return err
}

// reenter takes a held lock once more, which does not wait, and releases that
// hold.
func reenter(ctx context.Context, st *stage.Stage, l *rlock.Lock) error {
	if _, err := l.TryLock(ctx); err != nil {
		return fmt.Errorf("re-entry: %w", err)
	}
	n, err := l.HoldCount(ctx)
	st.Violated(err != nil || n == 2)
	return errors.Join(err, l.Unlock(ctx))
}

// crashLease is the lease of a holder that crashes.
const crashLease = 200 * time.Millisecond

// playCrash makes one worker in each round take the lock and then neither renew
// nor unlock it. The next worker gets the lock when the lease is over, and not
// earlier. By then the first worker no longer trusts its hold.
func playCrash(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	lock := locks(st, "crash", cs)
	s := newSection(st)
	for round := 0; err == nil && (st.Acquisitions() == 0 || !st.Over()); round++ {
		err = crashRound(ctx, st, s, lock, round)
	}
	s.settle()
	return err
}

func crashRound(ctx context.Context, st *stage.Stage, s *section, lock func(int) *rlock.Lock, round int) error {
	ctx, cancel := context.WithTimeout(ctx, crashLease+stage.Grace)
	defer cancel()
	victim := round % st.Workers
	asked := time.Now()
	crashed, err := st.Lock(ctx, lock(victim), latchkey.Lease(crashLease))
	if errors.Is(err, latchkey.ErrLeaseLost) {
		return nil // the machine stood still for a lease; there is another round
	} else if err != nil {
		return err
	}
	first := new(atomic.Bool)
	errs := make([]error, st.Workers)
	var wg sync.WaitGroup
	for w := range st.Workers {
		if w == victim {
			continue
		}
		wg.Go(func() {
			h, err := st.Lock(ctx, lock(w))
			if err != nil {
				errs[w] = err
				return
			}
			if first.CompareAndSwap(false, true) {
				// 2 ms because clocks count whole milliseconds.
				st.Violated(time.Since(asked) >= crashLease-2*time.Millisecond)
				st.Violated(crashed.Remaining() == 0)
			}
			v := s.enter()
			s.leave(v)
			errs[w] = h.Unlock(ctx)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return awaitLoss(ctx, st, crashed)
}

// awaitLoss waits until a holder is told that its hold is lost.
func awaitLoss(ctx context.Context, st *stage.Stage, h *latchkey.Hold) error {
	select {
	case <-h.Lost():
	case <-ctx.Done():
		return errors.Join(errors.New("the holder has not heard of its loss"), context.Cause(ctx))
	}
	st.Violated(errors.Is(context.Cause(h.Context()), latchkey.ErrLeaseLost))
	return nil
}

// forcedLease is the lease that is renewed while the lock is forced open.
const forcedLease = 900 * time.Millisecond

// playForced forces a lock open while it is held. The holder learns of it by
// the next renewal, at most a third of the lease later. The waits that it
// counts are the times until then.
func playForced(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients, latchkey.WithWatchdogTimeout(forcedLease))
	if err != nil {
		return err
	}
	names := make([]string, st.Workers)
	for i := range names {
		names[i] = fmt.Sprintf("forced-%d", i)
		st.Used(st.Key(names[i]))
	}
	return st.Compete(ctx, func(ctx context.Context, worker int) error {
		holder := rlock.New(cs[worker%len(cs)], names[worker])
		other := rlock.New(cs[(worker+1)%len(cs)], names[worker])
		s := newSection(st)
		h, err := holder.Lock(ctx)
		if err != nil {
			return err
		}
		v := s.enter()
		ctx, cancel := context.WithTimeoutCause(ctx, stage.Grace, errors.New("it takes too long"))
		defer cancel()
		forced, err := other.ForceUnlock(ctx)
		if err != nil {
			return err
		}
		// If the machine stood still for a lease, the hold has ended by itself.
		st.Violated(forced || h.Remaining() == 0)
		if err := st.Acquired(func() error { return awaitLoss(ctx, st, h) }); err != nil {
			return err
		}
		s.leave(v)
		st.Violated(errors.Is(h.Unlock(ctx), latchkey.ErrLeaseLost))
		s.settle()
		return nil
	})
}
