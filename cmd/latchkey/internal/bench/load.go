package bench

import (
	"context"
	"errors"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// A load runs the workers of a stage until its time is over.
type load func(ctx context.Context, st *stage.Stage, f *flags) error

var loads = map[string]load{
	"lock": lockLoad(func(c *latchkey.Client, name string, _ int) latchkey.Locker { return rlock.New(c, name) }),
	"fenced": lockLoad(func(c *latchkey.Client, name string, _ int) latchkey.Locker {
		return rlock.New(c, name, rlock.Fenced())
	}),
	"spin": lockLoad(func(c *latchkey.Client, name string, _ int) latchkey.Locker {
		return rlock.New(c, name, rlock.Spin(rlock.Backoff{}))
	}),
	"fair": lockLoad(func(c *latchkey.Client, name string, _ int) latchkey.Locker { return fairlock.New(c, name) }),
	"readwrite": lockLoad(func(c *latchkey.Client, name string, worker int) latchkey.Locker {
		if worker%writers == 0 {
			return rwlock.New(c, name).WriteLock()
		}
		return rwlock.New(c, name).ReadLock()
	}),
	"semaphore": semaphoreLoad,
	"permits":   permitLoad,
}

// writers sets which workers write: one in writers. The others read.
const writers = 4

// lockLoad is the load of the locks that newLock returns.
func lockLoad(newLock func(c *latchkey.Client, name string, worker int) latchkey.Locker) load {
	return func(ctx context.Context, st *stage.Stage, f *flags) error {
		cs, err := st.Open(f.Clients)
		if err != nil {
			return err
		}
		locks := make([]latchkey.Locker, f.Workers)
		for w := range locks {
			name := f.name(w)
			locks[w] = newLock(cs[w%len(cs)], name, w)
			if w < f.names {
				st.Used(st.Key(name))
				st.Kept(names.Token(st.Key(name)))
			}
		}
		return st.Compete(ctx, func(ctx context.Context, worker int) error {
			h, err := st.Lock(ctx, locks[worker])
			if err != nil {
				return err
			}
			f.keep(ctx)
			return h.Unlock(ctx)
		})
	}
}

// semaphoreLoad takes plain permits, one at a time.
func semaphoreLoad(ctx context.Context, st *stage.Stage, f *flags) error {
	return permitted(ctx, st, f, semaphore.New, func(ctx context.Context, sem *semaphore.Semaphore) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return sem.Release(ctx, 1) }, sem.Acquire(ctx, 1)
	}, func(ctx context.Context, sem *semaphore.Semaphore) error {
		_, err := sem.TrySetPermits(ctx, f.permits)
		return err
	})
}

// permitLoad takes permits with ids and leases.
func permitLoad(ctx context.Context, st *stage.Stage, f *flags) error {
	return permitted(ctx, st, f, permitsemaphore.New, func(ctx context.Context, sem *permitsemaphore.Semaphore) (func(context.Context) error, error) {
		p, err := sem.Acquire(ctx)
		return p.Release, err
	}, func(ctx context.Context, sem *permitsemaphore.Semaphore) error {
		return sem.SetPermits(ctx, f.permits)
	})
}

// permitted is the load of both kinds of semaphore.
func permitted[S interface {
	Delete(ctx context.Context) (bool, error)
}](ctx context.Context, st *stage.Stage, f *flags, newSem func(*latchkey.Client, string) S,
	acquire func(context.Context, S) (release func(context.Context) error, err error), set func(context.Context, S) error,
) (err error) {
	cs, err := st.Open(f.Clients)
	if err != nil {
		return err
	}
	sems := make([]S, f.Workers)
	for w := range sems {
		name := f.name(w)
		sems[w] = newSem(cs[w%len(cs)], name)
		if w >= f.names {
			continue
		}
		st.Used(st.Key(name))
		defer func() {
			_, derr := sems[w].Delete(context.WithoutCancel(ctx))
			err = errors.Join(err, derr)
		}()
		if err := set(ctx, sems[w]); err != nil {
			return err
		}
	}
	return st.Compete(ctx, func(ctx context.Context, worker int) error {
		var release func(context.Context) error
		err := st.Acquired(func() (err error) {
			release, err = acquire(ctx, sems[worker])
			return err
		})
		if err != nil {
			return err
		}
		f.keep(ctx)
		return release(ctx)
	})
}
