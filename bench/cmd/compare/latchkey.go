package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// latchkey returns a latchkey client for the task, and what closes it.
func (t *task) latchkey() (c *latchkey.Client, closeAll func() error) {
	rdb := t.client(poolSize)
	var opts []latchkey.Option
	switch t.Side {
	case "latchkey-off":
		opts = append(opts, latchkey.WithHandOver(0))
	case "latchkey-hook":
		rdb.AddHook(new(counter))
	}
	if t.Lease > 0 {
		opts = append(opts, latchkey.WithWatchdogTimeout(t.Lease))
	}
	c = latchkey.New(rdb, opts...)
	return c, func() error { return errors.Join(c.Close(), rdb.Close()) }
}

func openLatchkey(ctx context.Context, t *task) (*opened, error) {
	c, closeAll := t.latchkey()
	o := &opened{
		waiting: func() int { return c.Stats().Waiting },
		close:   closeAll,
	}
	switch t.Object {
	case objectLock:
		var opts []rlock.Option
		if t.Side == "latchkey-fenced" {
			opts = append(opts, rlock.Fenced())
		}
		var l *rlock.Lock // goroutines that want the same one share it
		o.slot = func(name string) slot {
			if l == nil || l.Name() != name {
				l = rlock.New(c, name, opts...)
			}
			return &held{l: l}
		}
	case objectFair:
		o.slot = func(name string) slot { return &held{l: fairlock.New(c, name)} }
	case objectRead:
		o.slot = func(name string) slot { return &held{l: rwlock.New(c, name).ReadLock()} }
	case objectSemaphore:
		if _, err := semaphore.New(c, t.name(0)).TrySetPermits(ctx, t.Limit); err != nil {
			return nil, errors.Join(err, closeAll())
		}
		o.slot = func(name string) slot { return permit{semaphore.New(c, name)} }
	default:
		return nil, errors.Join(fmt.Errorf("there is no object %q", t.Object), closeAll())
	}
	return o, nil
}

type held struct {
	l latchkey.Locker
	h *latchkey.Hold
}

func (s *held) take(ctx context.Context) (err error) {
	s.h, err = s.l.Lock(ctx)
	return err
}

func (s *held) give(ctx context.Context) error { return s.h.Unlock(ctx) }

type permit struct{ s *semaphore.Semaphore }

func (p permit) take(ctx context.Context) error { return p.s.Acquire(ctx, 1) }
func (p permit) give(ctx context.Context) error { return p.s.Release(ctx, 1) }

// A counter is a hook of go-redis that counts commands.
type counter struct{ n atomic.Int64 }

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
