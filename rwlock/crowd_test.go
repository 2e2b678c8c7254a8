package rwlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rwlock"
)

// readers is the number of goroutines that read at once, so that one script
// serves many.
const readers = 64

func readsMany(args []string) bool {
	return len(args) > 1 && slices.Contains([]string{lua.RWLockAcquireReadMany.SHA, lua.RWLockReleaseReadMany.SHA}, args[1])
}

// Many readers of one name need less than two commands each, and nothing is
// left behind, even if the server forgets its scripts in between.
func TestCrowdOfReaders(t *testing.T) {
	r := newRig(t)
	l := rwlock.New(r.reading(0), "a").ReadLock()
	var sent, together, served atomic.Int64
	r.proxy.OnCommand(func(args []string) redistest.Act {
		if strings.HasPrefix(args[0], "eval") {
			sent.Add(1)
		}
		if readsMany(args) {
			together.Add(1)
		}
		return redistest.Pass
	})
	const times = 50
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for range times {
				h, err := l.Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				if served.Add(1)%500 == 0 {
					r.server.Do(t, "SCRIPT", "FLUSH")
				}
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	all.Wait()
	require.EqualValues(t, readers*times, served.Load())
	require.Positive(t, together.Load(), "nobody was served together")
	require.Less(t, sent.Load(), served.Load(), "commands")
	r.empty()
}

// Replies that are lost or late, and calls that give up, in a crowd of readers
// with a few writers among them. A writer is alone, nobody fails who has not
// given up, and nothing is left behind.
func TestFaultCrowdOfReaders(t *testing.T) {
	r := newRig(t)
	r.proxy.HoldFor(50 * time.Millisecond)
	acts := []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.Hold, redistest.RefuseRST, redistest.Late}
	var seen atomic.Int64
	r.proxy.OnCommand(func(args []string) redistest.Act {
		if !readsMany(args) {
			return redistest.Pass
		}
		n := int(seen.Add(1))
		if n%6 > 0 {
			return redistest.Pass
		}
		return acts[n/6%len(acts)]
	})
	enough := func() bool { return int(seen.Load()) >= 6*2*len(acts) }
	var room room
	var all sync.WaitGroup
	for range 2 {
		rw := rwlock.New(r.reading(0), "a", rwlock.WriterPreference(50*time.Millisecond))
		for i := range readers {
			write := i == 0
			l := rw.ReadLock()
			if write {
				l = rw.WriteLock()
			}
			all.Go(func() {
				for n, end := 0, time.Now().Add(time.Minute); !enough() && time.Now().Before(end); n++ {
					ctx, cancel := context.WithCancel(context.Background())
					gives := n%5 == 4
					if gives {
						ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
					}
					h, err := l.Lock(ctx)
					cancel()
					if err != nil {
						assert.True(t, gives, "%v", err)
						continue
					}
					room.enter(write)()
					assert.NoError(t, h.Unlock(context.Background()))
					if write {
						time.Sleep(rand.N(100 * time.Millisecond)) // among writers readers come one by one
					}
				}
			})
		}
	}
	all.Wait()
	r.proxy.OnCommand(nil)
	require.Zero(t, room.clashes, "a writer was not alone")
	require.Positive(t, room.writes)
	for _, act := range acts {
		require.Positive(t, r.proxy.Count(act), "%v did not happen, in %d runs", act, seen.Load())
	}
	t.Logf("%d reads, up to %d together, %d writes; %d runs for many", room.reads, room.together, room.writes, seen.Load())
	redistest.Until(t, "all keys to be gone", func() bool { return r.rdb.DBSize(t.Context()).Val() == 0 })
}
