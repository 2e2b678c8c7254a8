package engine

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A waiter may wake, and be about to ask, as it is handed the lock. Nobody is counted in
// when all have been there.
func TestHandOverToOneWhoWakes(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no Redis")
	}})
	defer func() { require.NoError(t, rdb.Close()) }()
	e := New(rdb, Config{
		ID: "me", WatchdogTimeout: time.Hour, UnlockTimeout: time.Second, Recheck: time.Hour, HandOver: time.Hour,
		Wrap: func(_, _, _ string, _ bool, err error) error { return err },
	})
	defer func() { require.NoError(t, e.Close()) }()
	s := e.Prepare(&Spec{
		Kind: "test", Name: "a", Key: "a", Scope: "a", Line: "a", HandsOn: true, Scripts: &onePlace{},
		Poll: wait.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1},
	})
	last, handed := uint64(0), 0 // guarded by the lock
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				h, err := s.Acquire(t.Context(), Lock, &LockConfig{})
				if !assert.NoError(t, err) {
					return
				}
				if h.Holder() == last {
					handed++
				}
				last = h.Holder()
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		all.Wait()
	}()
	for {
		select {
		case <-over:
			require.NotZero(t, handed)
			require.Empty(t, e.holdings.m)
			return
		default:
			e.lines.Nudge(s.Line)
			time.Sleep(20 * time.Microsecond)
		}
	}
}
