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

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// inMemory runs f with an engine that has no Redis, and a lock on it that is handed on.
func inMemory(t *testing.T, scripts Scripts, f func(e *Engine, s *Spec)) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no Redis")
	}})
	defer func() { require.NoError(t, rdb.Close()) }()
	e := New(rdb, Config{
		ID: "me", WatchdogTimeout: time.Hour, UnlockTimeout: time.Second, AnswerTimeout: time.Minute, Recheck: time.Hour, HandOver: time.Hour,
		Wrap: func(_, _, _ string, _ bool, err error) error { return err },
	})
	defer func() { require.NoError(t, e.Close()) }()
	f(e, e.Prepare(&Spec{
		Kind: "test", Name: "a", Key: "a", Scope: "a", Line: "a", HandsOn: true, Scripts: scripts,
		Poll: wait.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1},
	}))
}

// A waiter may wake, and be about to ask, as it is handed the lock. Nobody is counted in
// when all have been there.
func TestHandOverToOneWhoWakes(t *testing.T) {
	inMemory(t, &onePlace{}, func(e *Engine, s *Spec) {
		last, handed := uint64(0), 0 // guarded by the lock
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for n, enough := 0, false; n < 500 || !enough; n++ {
					h, err := s.Acquire(t.Context(), Lock, &LockConfig{})
					if !assert.NoError(t, err) {
						return
					}
					if h.Holder() == last {
						handed++
					}
					last = h.Holder()
					enough = handed > 0 // or it goes on until a goroutine waits for another
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
				require.Empty(t, e.holdings.m)
				return
			default:
				e.lines.Nudge(s.Line)
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
}

// slowToRenew are scripts of which each renewal waits to be let through.
type slowToRenew struct {
	onePlace
	under, goOn chan struct{}
}

func (r *slowToRenew) Renew(_ context.Context, _ *Engine, _ run.Options, batch []Renewal, _ run.Deadline) ([]watchdog.Result, error) {
	r.under <- struct{}{}
	<-r.goOn
	results := make([]watchdog.Result, len(batch))
	for i := range results {
		results[i] = watchdog.Extended
	}
	return results, nil
}

// An Extend that is answered as its hold is given back has made the lease longer than
// anybody asks for the waiters.
func TestExtendAnsweredAsTheHoldIsGivenUp(t *testing.T) {
	scripts := &slowToRenew{under: make(chan struct{}), goOn: make(chan struct{})}
	inMemory(t, scripts, func(_ *Engine, s *Spec) {
		h, err := s.Acquire(t.Context(), Lock, &LockConfig{})
		require.NoError(t, err)
		hd := h.holding
		require.True(t, hd.rejoin())
		defer hd.leave()
		require.True(t, hd.tryOps())
		require.True(t, hd.fresh)
		extended := make(chan error)
		go func() { extended <- h.Extend(t.Context(), 24*time.Hour) }()
		<-scripts.under
		target, trusted, err := h.giveUp()
		require.NoError(t, err)
		close(scripts.goOn)
		require.ErrorIs(t, <-extended, ErrNotHeld)
		require.False(t, hd.canBeTakenOver(s, hd.engine.renewed(h.cfg)))
		require.NoError(t, h.giveBack(t.Context(), target, trusted, nil))
	})
}
