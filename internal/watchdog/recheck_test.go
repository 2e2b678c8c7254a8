package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Everything is looked at soon, whatever its plan, and what is gone is lost at
// once instead of at its next renewal.
func TestRecheck(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		kept, _ := r.add(lease)
		fixed, s := r.addPlan(lease, watchdog.Plan{})
		bounded, _ := r.addPlan(lease, watchdog.Plan{Lease: lease, Max: lease})
		r.advance(time.Second) // just renewed, as it were
		r.redis.answer = func(_ int, rn watchdog.Renewal) watchdog.Result {
			if rn.Item == fixed {
				return watchdog.NotOurs
			}
			return watchdog.Extended
		}
		r.Recheck()
		r.advance(10 * time.Millisecond)
		calls := r.redis.seen()
		require.Len(t, calls, 1, "one script for all")
		byItem := map[*watchdog.Item]watchdog.Renewal{}
		for _, rn := range calls[0].batch {
			byItem[rn.Item] = rn
		}
		require.Len(t, byItem, 3)
		require.Equal(t, watchdog.Renewal{Item: kept, Lease: lease}, byItem[kept])
		require.Equal(t, watchdog.Renewal{Item: fixed, Lease: time.Millisecond, Look: true}, byItem[fixed], "extends nothing")
		require.False(t, byItem[bounded].Look)
		require.Less(t, byItem[bounded].Lease, lease)
		require.Len(t, s.losses(), 1)
		require.Equal(t, watchdog.Taken, s.losses()[0].reason)
		require.InDelta(t, float64(trusted(lease)), float64(r.Remaining(kept)), float64(20*time.Millisecond), "renewed")

		r.until(10 * time.Second)
		require.Len(t, r.redis.seen(), 1, "then all goes on as before")
	})
}

// A look that finds nobody is repeated until somebody answers; a fixed lease that
// is looked at ends when it would have ended.
func TestRecheckIsRepeated(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		it, s := r.addPlan(lease, watchdog.Plan{})
		r.redis.answer = func(nth int, _ watchdog.Renewal) watchdog.Result {
			if nth < 4 {
				return watchdog.Failed
			}
			return watchdog.Extended
		}
		r.Recheck()
		r.advance(20 * time.Second)
		require.Len(t, r.redis.seen(), 4)
		require.Less(t, r.redis.at()[3], 3*time.Second+10*time.Millisecond)
		require.Positive(t, r.Remaining(it))
		r.advance(lease)
		require.Equal(t, []loss{{trusted(lease), watchdog.WindowOver}}, s.losses())
		require.Len(t, r.redis.seen(), 4)
	})
}

// However often it is asked for, everything is looked at once a second at most,
// and once after the last time.
func TestRecheckIsBounded(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		const n = 2000
		for range n {
			r.add(lease)
		}
		asked := map[time.Duration]int{} // by second
		for range 450 {
			r.Recheck()
			r.advance(10 * time.Millisecond)
		}
		last := time.Since(r.start)
		r.advance(3 * time.Second)
		after := 0
		for _, c := range r.redis.seen() {
			asked[c.at/time.Second] += len(c.batch)
			if c.at >= last-10*time.Millisecond {
				after += len(c.batch)
			}
		}
		for at, items := range asked {
			require.LessOrEqual(t, items, 2*n, "in second %d", at)
		}
		require.GreaterOrEqual(t, after, n, "after the last time")
		calls := len(r.redis.seen())
		require.LessOrEqual(t, calls, 7*n/watchdog.BatchSize*2)
		r.Recheck()
		r.Close()
		r.Recheck() // does nothing
	})
}

// A slow server does not keep the renewals of others waiting.
func TestLanes(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		slow := map[string]bool{}
		r.Watchdog = watchdog.New(r.clock.now, func(ctx context.Context, group string, batch []watchdog.Renewal) []watchdog.Result {
			if slow[group] {
				<-ctx.Done()
				return make([]watchdog.Result, len(batch)) // Failed
			}
			return r.redis.renew(ctx, group, batch)
		}, func(it *watchdog.Item) string {
			if slow[it.Group] {
				return "slow"
			}
			return "fast"
		})
		const groups = 10 * watchdog.MaxInFlight
		s := &subject{start: r.start}
		var fast []*watchdog.Item
		for i := range groups {
			g := "slow" + string(rune('A'+i))
			slow[g] = true
			require.True(t, r.Add(&watchdog.Item{Group: g, Subject: s}, r.window(lease), watchdog.Plan{Lease: lease}))
		}
		for i := range groups {
			it := &watchdog.Item{Group: "fast" + string(rune('A'+i)), Subject: s}
			require.True(t, r.Add(it, r.window(lease), watchdog.Plan{Lease: lease}))
			fast = append(fast, it)
		}
		r.until(28 * time.Second)
		require.Empty(t, s.losses())
		for _, it := range fast {
			require.Greater(t, r.Remaining(it), lease/3)
		}
		for _, c := range r.redis.seen() {
			for _, rn := range c.batch {
				require.Less(t, rn.Late, 10*time.Millisecond)
			}
		}
		r.until(40 * time.Second)
		require.Len(t, s.losses(), groups, "those of the slow server, and no others")
	})
}
