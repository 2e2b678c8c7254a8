package matrix

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// Columns are the primitives, by their letters.
const Columns = "LFWSPCMRX"

// Names are the primitives as the table calls them.
var Names = map[byte]string{
	'L': "lock", 'F': "fair lock", 'W': "read-write lock", 'S': "semaphore", 'P': "expiring permits",
	'C': "latch", 'M': "multi-lock", 'R': "red-lock", 'X': "fenced lock",
}

// A side is what one process has: a client of the server under fault, and clients
// of other servers, which are left alone, for red-locks.
type side struct {
	rdb    redis.UniversalClient
	client *latchkey.Client
	others []*latchkey.Client
}

// A thing is one object of one primitive, as one side sees it.
type thing struct {
	// prepare makes what must be there before anybody can take it.
	prepare func(context.Context) error
	// take is what the first one does who comes, and follow what another one does
	// who has to wait for him.
	take   func(context.Context, ...latchkey.LockOption) (*grip, error)
	follow func(context.Context) (*grip, error)
	// clean removes what stays by design.
	clean func(context.Context) error
	// locker is the thing itself where it is a lock.
	locker latchkey.Locker
}

// A grip is what one has who has taken a thing.
type grip struct {
	give  func(context.Context) error
	lost  <-chan struct{} // nil: it cannot be lost
	token int64
}

func done(context.Context) error { return nil }

func lockGrip(h *latchkey.Hold, err error) (*grip, error) {
	if err != nil {
		return nil, err
	}
	return &grip{give: h.Unlock, lost: h.Lost(), token: h.Token()}, nil
}

// locker is a thing that is a lock; the second one takes another lock where the
// two halves differ.
func locker(first, second latchkey.Locker) thing {
	return thing{
		prepare: done, clean: done, locker: first,
		take: func(ctx context.Context, opts ...latchkey.LockOption) (*grip, error) {
			return lockGrip(first.Lock(ctx, opts...))
		},
		follow: func(ctx context.Context) (*grip, error) { return lockGrip(second.Lock(ctx)) },
	}
}

// newThing returns the thing of that name in a column.
func newThing(column byte, name string, s side) thing {
	switch column {
	case 'L':
		l := rlock.New(s.client, name)
		return locker(l, l)
	case 'X':
		l := rlock.New(s.client, name, rlock.Fenced())
		return locker(l, l)
	case 'F':
		l := fairlock.New(s.client, name)
		return locker(l, l)
	case 'W':
		l := rwlock.New(s.client, name)
		return locker(l.WriteLock(), l.ReadLock())
	case 'M':
		l := multilock.New(rlock.New(s.client, name+".1"), rlock.New(s.client, name+".2"))
		return locker(l, l)
	case 'R':
		members := []latchkey.Locker{rlock.New(s.client, name)}
		for _, c := range s.others {
			members = append(members, rlock.New(c, name))
		}
		l := multilock.NewRed(members...)
		return locker(l, l)
	case 'S':
		return semaphoreThing(semaphore.New(s.client, name))
	case 'P':
		return permitThing(permitsemaphore.New(s.client, name))
	case 'C':
		return latchThing(countdownlatch.New(s.client, name))
	}
	panic(fmt.Sprintf("matrix: there is no column %c", column))
}

func semaphoreThing(s *semaphore.Semaphore) thing {
	follow := func(ctx context.Context) (*grip, error) {
		if err := s.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		return &grip{give: func(ctx context.Context) error { return s.Release(ctx, 1) }}, nil
	}
	return thing{
		prepare: func(ctx context.Context) error { _, err := s.TrySetPermits(ctx, 1); return err },
		take:    func(ctx context.Context, _ ...latchkey.LockOption) (*grip, error) { return follow(ctx) },
		follow:  follow,
		clean:   func(ctx context.Context) error { _, err := s.Delete(ctx); return err },
	}
}

func permitThing(s *permitsemaphore.Semaphore) thing {
	take := func(ctx context.Context, opts ...latchkey.LockOption) (*grip, error) {
		p, err := s.Acquire(ctx, opts...)
		if err != nil {
			return nil, err
		}
		return &grip{give: p.Release, lost: p.Lost()}, nil
	}
	return thing{
		prepare: func(ctx context.Context) error { _, err := s.TrySetPermits(ctx, 1); return err },
		take:    take,
		follow:  func(ctx context.Context) (*grip, error) { return take(ctx) },
		clean:   func(ctx context.Context) error { _, err := s.Delete(ctx); return err },
	}
}

// latchThing has the one who comes first begin a count of one, and the second one
// wait for its end.
func latchThing(l *countdownlatch.Latch) thing {
	return thing{
		prepare: done,
		take: func(ctx context.Context, _ ...latchkey.LockOption) (*grip, error) {
			set, err := l.TrySetCount(ctx, 1)
			if err == nil && !set {
				err = errors.New("a count is running")
			}
			if err != nil {
				return nil, err
			}
			return &grip{give: l.CountDown}, nil
		},
		follow: func(ctx context.Context) (*grip, error) { return &grip{give: done}, l.Await(ctx) },
		clean:  func(ctx context.Context) error { _, err := l.Delete(ctx); return err },
	}
}
