package latchkey_test

import (
	"context"
	"maps"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// spared are the allocations that a client without an option spares: those that note by
// whom and where a lock was acquired. A client that made them nevertheless would spare fewer.
var spared = map[string]float64{"WithTakenDetails": 0, "WithSlowWait": 4, "WithLeakDetection": 7, "WithWaitGraph": 1}

// whoHasIt are the options that say who has what and who waits.
var whoHasIt = map[string]latchkey.Option{
	"WithTakenDetails":  latchkey.WithTakenDetails(),
	"WithSlowWait":      latchkey.WithSlowWait(time.Second),
	"WithLeakDetection": latchkey.WithLeakDetection(latchkey.LeakRelease),
	"WithWaitGraph":     latchkey.WithWaitGraph(),
}

var callsOf = regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=(\d+)`)

// commandsOf returns how often f makes the server run each command, by its commandstats.
func commandsOf(t *testing.T, s *redistest.Server, f func()) map[string]string {
	s.Do(t, "CONFIG", "RESETSTAT")
	f()
	ran := map[string]string{}
	for _, m := range callsOf.FindAllStringSubmatch(s.Do(t, "INFO", "commandstats")[0], -1) {
		ran[m[1]] = m[2]
	}
	return ran
}

// Where nobody else wants what a call takes, the options that say who has it send nothing.
// For what they note, a client without them allocates nothing.
func TestOptionsCostNothingWithoutContention(t *testing.T) {
	s := redistest.Start(t)
	pairs := map[string]func(ctx context.Context, c *latchkey.Client) error{
		"permit": func(ctx context.Context, c *latchkey.Client) error {
			p, err := permitsemaphore.New(c, "permits").Acquire(ctx)
			if err != nil {
				return err
			}
			return p.Release(ctx)
		},
	}
	for kind, lock := range labelled {
		pairs[kind] = func(ctx context.Context, c *latchkey.Client) error {
			h, err := lock(c).Lock(ctx)
			if err != nil {
				return err
			}
			return h.Unlock(ctx)
		}
	}
	require.NoError(t, permitsemaphore.New(newClient(t, s.Client(t)), "permits").SetPermits(t.Context(), 1))

	type cost struct {
		commands map[string]string
		allocs   float64
	}
	measure := func(t *testing.T, pair func(ctx context.Context, c *latchkey.Client) error, opts ...latchkey.Option) (m cost) {
		c := latchkey.New(redistest.User(t, s.Client(t)), opts...)
		once := func() { require.NoError(t, pair(t.Context(), c)) }
		once() // it connects, and loads scripts
		m.commands = commandsOf(t, s, func() {
			for range 20 {
				once()
			}
		})
		m.allocs = math.Inf(1)
		for range 3 { // a garbage collection adds to one of them
			m.allocs = min(m.allocs, testing.AllocsPerRun(30, once))
		}
		require.NoError(t, c.Close())
		return m
	}
	for kind, pair := range pairs {
		t.Run(kind, func(t *testing.T) {
			off := measure(t, pair)
			require.Contains(t, off.commands, "evalsha")
			for name, opt := range whoHasIt {
				on := measure(t, pair, opt)
				require.Equal(t, off.commands, on.commands, name)
				if kind != "permit" || name != "WithSlowWait" { // which notes nothing of permits
					require.GreaterOrEqual(t, on.allocs-off.allocs, spared[name], name)
				}
			}
			all := measure(t, pair, slices.Collect(maps.Values(whoHasIt))...)
			require.Equal(t, off.commands, all.commands)
		})
	}
}

// Nor do they start a goroutine there.
func TestOptionsStartNothingWithoutContention(t *testing.T) {
	for kind, lock := range labelled {
		counts := map[int][]string{}
		count := func(name string, opts ...latchkey.Option) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				h := locked(t, lock(newClient(t, b.Client(), opts...)))
				b.Advance(30 * time.Second) // with renewals
				all := make([]byte, 1<<20)
				n := strings.Count(string(all[:runtime.Stack(all, true)]), "synctest bubble")
				require.Positive(t, n)
				counts[n] = append(counts[n], name)
				require.NoError(t, h.Unlock(t.Context()))
			})
		}
		count("off")
		for name, opt := range whoHasIt {
			count(name, opt)
		}
		count("all", slices.Collect(maps.Values(whoHasIt))...)
		require.Len(t, counts, 1, "%s: %v", kind, counts)
	}
}
