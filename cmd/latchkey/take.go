package main

import (
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A grip is what run holds while CMD runs: a lock or a permit.
type grip interface {
	Lost() <-chan struct{}
	Remaining() time.Duration
	holder() string // as Redis shows it
	token() int64   // 0 without one
	// release gives it back. lingers is set if the client must not be closed,
	// because Close would give back what --hold-at-least keeps.
	release(ctx context.Context) (lingers bool, err error)
}

// take acquires what the flags name, and waits as they say.
func (j *job) take(ctx context.Context, client *latchkey.Client) (grip, error) {
	var opts []latchkey.LockOption
	if j.label != "" {
		opts = append(opts, latchkey.Label(j.label))
	}
	if j.permits > 0 {
		return j.takePermit(ctx, permitsemaphore.New(client, j.name), opts)
	}
	if j.holdMin >= time.Millisecond {
		opts = append(opts, latchkey.HoldAtLeast(j.holdMin))
	}
	lock := j.lock(client)
	h, err := attempt(ctx, &j.waits, lock.Lock, lock.TryLock, opts)
	if err != nil {
		return nil, err
	}
	return heldLock{h, j.exclusive}, nil
}

// lock returns the lock that the flags name.
func (j *job) lock(client *latchkey.Client) latchkey.Locker {
	switch {
	case j.shared:
		return rwlock.New(client, j.name).ReadLock()
	case j.exclusive:
		return rwlock.New(client, j.name).WriteLock()
	case j.fair:
		return fairlock.New(client, j.name)
	}
	return rlock.New(client, j.name, rlock.Fenced())
}

// takePermit takes one of the permits, and first creates the semaphore if there
// is none.
func (j *job) takePermit(ctx context.Context, sem *permitsemaphore.Semaphore, opts []latchkey.LockOption) (grip, error) {
	set, err := sem.TrySetPermits(ctx, j.permits)
	if err == nil && !set {
		err = j.comparePermits(ctx, sem)
	}
	if err != nil {
		return nil, err
	}
	p, err := attempt(ctx, &j.waits, sem.Acquire, sem.TryAcquire, opts)
	if err != nil {
		return nil, err
	}
	return &heldPermit{Permit: p, sem: sem, until: time.Now().Add(j.holdMin)}, nil
}

// comparePermits warns if the number of permits is not that of --permits. The
// number is the same for all users, so run does not change it.
func (j *job) comparePermits(ctx context.Context, sem *permitsemaphore.Semaphore) error {
	n, err := sem.Permits(ctx)
	if err == nil && n != j.permits {
		warn("%q has %d permits, not %d: 'latchkey sem set' changes that", j.name, n, j.permits)
	}
	return err
}

// A heldLock is the grip of a lock.
type heldLock struct {
	*latchkey.Hold
	writes bool // it is the write half of a read-write lock, whose holder ends with ":write" in Redis
}

func (h heldLock) token() int64 { return h.Token() }

func (h heldLock) holder() string {
	if h.writes {
		return h.HolderID() + ":write"
	}
	return h.HolderID()
}

func (h heldLock) release(ctx context.Context) (bool, error) { return false, h.Unlock(ctx) }

// A heldPermit is the grip of a permit.
type heldPermit struct {
	*permitsemaphore.Permit
	sem   *permitsemaphore.Semaphore
	until time.Time // earliest release
}

func (p *heldPermit) holder() string { return p.ID() }
func (p *heldPermit) token() int64   { return 0 }

func (p *heldPermit) release(ctx context.Context) (lingers bool, err error) {
	left := time.Until(p.until)
	if left < time.Millisecond || p.Remaining() <= 0 {
		return false, p.Release(ctx)
	}
	kept, err := p.sem.UpdateLease(ctx, p.ID(), left)
	if err == nil && !kept {
		err = errors.Join(latchkey.ErrLeaseLost, latchkey.ErrNotHeld)
	}
	return kept, err
}
