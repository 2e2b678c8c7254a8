package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type redsyncSlot struct{ m *redsync.Mutex }

// openRedsync is redsync with its defaults; a caller whose 32 tries are used up
// begins again.
func openRedsync(_ context.Context, t *task) (*opened, error) {
	rdb := t.client(poolSize)
	rs := redsync.New(goredis.NewPool(rdb))
	return &opened{
		slot:  func(name string) slot { return redsyncSlot{rs.NewMutex(name, redsync.WithExpiry(lease))} },
		close: rdb.Close,
	}, nil
}

func (s redsyncSlot) take(ctx context.Context) error {
	for {
		err := s.m.LockContext(ctx)
		var taken *redsync.ErrTaken
		if err == nil || ctx.Err() != nil || !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			return err
		}
	}
}

func (s redsyncSlot) give(ctx context.Context) error {
	_, err := s.m.UnlockContext(ctx)
	return err
}

type redislockSlot struct {
	c    *redislock.Client
	name string
	l    *redislock.Lock
}

// openRedislock is bsm/redislock, which does not wait by default, with its linear
// back-off of 10 ms.
func openRedislock(_ context.Context, t *task) (*opened, error) {
	rdb := t.client(poolSize)
	c := redislock.New(rdb)
	return &opened{
		slot:  func(name string) slot { return &redislockSlot{c: c, name: name} },
		close: rdb.Close,
	}, nil
}

func (s *redislockSlot) take(ctx context.Context) (err error) {
	s.l, err = s.c.Obtain(ctx, s.name, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
	return err
}

func (s *redislockSlot) give(ctx context.Context) error { return s.l.Release(ctx) }

type rueidisSlot struct {
	l       rueidislock.Locker
	name    string
	release context.CancelFunc
}

// openRueidislock is rueidislock as its README recommends it for one Redis.
func openRueidislock(_ context.Context, t *task) (*opened, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyMajority:    1,
		NoLoopTracking: true,
		ClientOption: rueidis.ClientOption{
			InitAddress: t.Addrs,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return t.wire.dial(ctx, "tcp", addr)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return &opened{
		slot:  func(name string) slot { return &rueidisSlot{l: l, name: name} },
		close: func() error { l.Close(); return nil },
	}, nil
}

func (s *rueidisSlot) take(ctx context.Context) (err error) {
	_, s.release, err = s.l.WithContext(ctx, s.name)
	if err != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		return context.DeadlineExceeded
	}
	return err
}

func (s *rueidisSlot) give(context.Context) error {
	s.release()
	return nil
}
