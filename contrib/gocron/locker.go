package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/once"
	"github.com/latchkey-go/latchkey/rlock"
)

type locker func(ctx context.Context, name string) (gocron.Lock, error)

func (l locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	if name == "" {
		return nil, errors.New("gocron: the job has no name")
	}
	return l(ctx, name)
}

// NewLocker returns a gocron.Locker that runs a job on one machine at a time. The lock
// has the name of the job and is that of package rlock, renewed while the job runs. It
// panics if c is nil.
//
// A Lock makes one attempt: a machine that finds the lock taken skips the run. Machines
// whose clocks differ by more than the job lasts run it twice, unless
// latchkey.HoldAtLeast keeps the lock closed for longer than that. Once needs no such guess.
func NewLocker(c *latchkey.Client, opts ...latchkey.LockOption) gocron.Locker {
	if c == nil {
		panic("gocron: NewLocker: the client is nil")
	}
	return locker(func(ctx context.Context, name string) (gocron.Lock, error) {
		return rlock.New(c, name).TryLock(ctx, opts...)
	})
}

// Once returns a gocron.Locker that runs a job once in each period of d, on one of the
// machines: all must schedule it once in that time. It panics if c is nil, d is less than
// 1 ms, or an option is invalid.
//
// The fire of a run is the whole multiple of d at or before now. A timer that is early by
// less than a tenth of d, and by less than half a second, counts as on time.
//
// gocron does not tell a Lock how its job has ended, so a job that fails is Done all the
// same. A run whose process dies, or loses the lock, is Lost. With once.Retry, the Lock of
// another machine waits for the end of a run, and runs the job again if the run is Lost.
func Once(c *latchkey.Client, d time.Duration, opts ...once.Option) gocron.Locker {
	if d < time.Millisecond {
		panic(fmt.Sprintf("gocron: Once: a period of %v: the least is 1ms", d))
	}
	_ = once.New(c, "check", opts...) // it panics if anything is wrong
	early := min(d/10, time.Second/2)
	return locker(func(ctx context.Context, name string) (gocron.Lock, error) {
		return begin(ctx, once.New(c, name, opts...), time.Now().Add(early).Truncate(d))
	})
}

// A run is a call of once.Job.Do whose function lasts until Unlock.
type run struct {
	unlock func()
	ended  chan struct{}
	err    error // of Do, once ended is closed
}

// begin returns when Do has called its function, or with an error when it has not.
func begin(ctx context.Context, job *once.Job, fire time.Time) (gocron.Lock, error) {
	unlocked, begun := make(chan struct{}), make(chan struct{})
	r := &run{unlock: sync.OnceFunc(func() { close(unlocked) }), ended: make(chan struct{})}
	working, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a job outlives the order to stop
	stop := context.AfterFunc(ctx, cancel)
	go func() {
		defer close(r.ended)
		defer cancel()
		_, r.err = job.Do(working, fire, func(lock context.Context) error {
			if !stop() {
				return context.Cause(ctx)
			}
			close(begun)
			select {
			case <-unlocked:
				return nil
			case <-lock.Done():
				cancel() // gocron has called the job, and does not do so again
				return context.Cause(lock)
			}
		})
	}()
	select {
	case <-begun:
		return r, nil
	case <-r.ended:
		if r.err != nil {
			return nil, r.err
		}
		return nil, fmt.Errorf("gocron: job %q, fire %v: another machine runs it: %w", job.Name(), fire, latchkey.ErrNotAcquired)
	}
}

// Unlock ends the run, and waits until that is noted.
func (r *run) Unlock(context.Context) error {
	r.unlock()
	<-r.ended
	return r.err
}
