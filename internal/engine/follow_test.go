package engine

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// onePlace are the scripts of a lock that one holder has at a time.
type onePlace struct {
	mu     sync.Mutex
	holder string
}

func (o *onePlace) Acquire(_ context.Context, _ *Engine, _ run.Options, r *Request) (Grant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holder != "" && o.holder != r.Holder {
		return Grant{Status: Refused}, nil
	}
	o.holder = r.Holder
	return Grant{Status: Granted}, nil
}

func (o *onePlace) Release(_ context.Context, _ *Engine, _ run.Options, r *Return) (Status, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holder != r.Holder {
		return NotHolder, nil
	}
	if r.Count == 0 {
		o.holder = ""
	}
	return Granted, nil
}

func (o *onePlace) Renew(_ context.Context, _ *Engine, _ run.Options, batch []Renewal, _ run.Deadline) ([]watchdog.Result, error) {
	return make([]watchdog.Result, len(batch)), nil
}

func (*onePlace) RenewKind() string { return "test" }

// Whoever waits, in whatever way, leaves no entry behind; and who follows others
// has none before it is the head.
func TestEntriesOfThoseWhoWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("there is no Redis")
		}})
		defer func() { require.NoError(t, rdb.Close()) }()
		e := New(rdb, Config{
			ID: "me", WatchdogTimeout: time.Hour, UnlockTimeout: time.Second, Recheck: time.Hour,
			Wrap: func(_, _, _ string, _ bool, err error) error { return err },
		})
		defer func() { require.NoError(t, e.Close()) }()
		s := e.Prepare(&Spec{
			Kind: "test", Name: "a", Key: "a", Scope: "a", Line: "a", Scripts: &onePlace{},
			Poll: wait.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1},
		})
		holdings := func() int {
			e.holdings.mu.Lock()
			defer e.holdings.mu.Unlock()
			return len(e.holdings.m)
		}
		type result struct {
			hold *Hold
			err  error
		}
		acquire := func(ctx context.Context) (<-chan result, context.CancelFunc) {
			ch := make(chan result, 1)
			ctx, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			go func() {
				h, err := s.Acquire(ctx, Lock, NewLockConfig[LockOption](nil))
				ch <- result{h, err}
			}()
			synctest.Wait()
			return ch, cancel
		}
		held, _ := acquire(t.Context())
		first := <-held
		require.NoError(t, first.err)
		head, goAway := acquire(t.Context())
		named, _ := acquire(WithHolder(t.Context(), NewHolder()))
		require.Equal(t, 3, holdings())
		follower, _ := acquire(t.Context())
		gone, leave := acquire(t.Context())
		require.Equal(t, 3, holdings(), "those who follow have none")
		require.Equal(t, 4, e.Stats().Waiting)

		goAway()
		require.ErrorIs(t, (<-head).err, context.Canceled)
		leave()
		require.ErrorIs(t, (<-gone).err, context.Canceled)
		synctest.Wait()
		require.Equal(t, 2, holdings())
		for _, ch := range []<-chan result{held, named, follower} {
			h := first.hold
			if ch != held {
				r := <-ch
				require.NoError(t, r.err)
				h = r.hold
			}
			require.NoError(t, h.Unlock(t.Context()))
		}
		synctest.Wait()
		require.Zero(t, holdings())
	})
}

// A caller that follows others has its attempt and little more, and there may be many.
func TestAttemptIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(lockAttempt{}), uintptr(416), "a hundred thousand may wait")
}
