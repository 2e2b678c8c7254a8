package multilock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
)

// TestCancelledAtEveryStage ends the context of an acquire when the k-th script
// is sent to any of the servers. The script is run, or run and not answered, or
// lost. The call returns at once, and nothing is left on any server.
func TestCancelledAtEveryStage(t *testing.T) {
	kinds := map[string]func(fl *fleet) latchkey.Locker{
		"all": func(fl *fleet) latchkey.Locker { return multilock.New(rlocks("m", fl.clients...)...) },
		"red": func(fl *fleet) latchkey.Locker { return multilock.NewRed(rlocks("m", fl.clients...)...) },
		"group": func(fl *fleet) latchkey.Locker {
			return multilock.NewGroup(fl.clients[0], "m", "a", "b", "c")
		},
	}
	for kind, lock := range kinds {
		for _, act := range []redistest.Act{redistest.Pass, redistest.Swallow, redistest.Drop, redistest.LoseRST} {
			for _, contended := range []bool{false, true} {
				t.Run(fmt.Sprint(kind, act, contended), func(t *testing.T) {
					for k := range redistest.Many(6, 4) {
						inFleet(t, 3, func(t *testing.T, fl *fleet) {
							cancelAt(t, fl, lock, act, contended, int64(k+1))
						})
					}
				})
			}
		}
	}
}

func cancelAt(t *testing.T, fl *fleet, lock func(*fleet) latchkey.Locker, act redistest.Act, contended bool, k int64) {
	t.Helper()
	if contended {
		// Another client has it, and gives it back soon.
		h := locktest.MustLock(t, lock(&fleet{envs: fl.envs, clients: fl.more(t)}), latchkey.Lease(time.Minute))
		time.AfterFunc(120*time.Millisecond, func() { _ = h.Unlock(context.Background()) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen, at atomic.Int64
	for _, e := range fl.envs {
		for _, p := range e.Links() {
			p.OnCommand(func(args []string) redistest.Act {
				if strings.HasPrefix(strings.ToLower(args[0]), "eval") && seen.Add(1) == k {
					at.Store(time.Now().UnixNano())
					cancel()
					return act
				}
				return redistest.Pass
			})
		}
	}
	h, err := lock(fl).Lock(ctx)
	if sent := at.Load(); sent > 0 {
		require.LessOrEqual(t, time.Now().UnixNano()-sent, int64(100*time.Millisecond), "time to return")
	}
	if err == nil {
		_ = h.Unlock(t.Context()) // its answer may be the one that is lost
		_ = h.Unlock(t.Context())
	} else {
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, h)
	}
	time.Sleep(3 * time.Minute)
	clean(t, fl.envs...)
}
