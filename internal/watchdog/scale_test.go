package watchdog_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A hundred thousand holds: one goroutine and eight renewals at a time, a script
// for each hundred of them in each period, and none renewed in its second half.
func TestManyItems(t *testing.T) {
	const n, period, periods = 100_000, lease / 3, 3
	for name, spread := range map[string]time.Duration{"taken at once": 0, "taken over a period": period} {
		t.Run(name, func(t *testing.T) {
			if spread == 0 {
				redistest.Long(t, "the same, but all at one moment")
			}
			inRoom(t, func(t *testing.T, r *room) {
				const roundTrip = 2 * time.Millisecond
				var most atomic.Int64 // goroutines
				r.redis.during = func(context.Context) {
					time.Sleep(roundTrip)
					most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
				}
				s := &subject{start: r.start}
				before := runtime.NumGoroutine()
				for i := range n {
					if spread > 0 && i%(n/1000) == 0 {
						time.Sleep(spread / 1000)
					}
					if !r.Add(&watchdog.Item{Group: "g", Subject: s}, r.window(lease), watchdog.Plan{Lease: lease}) {
						t.Fatal("not added")
					}
				}
				r.advance(0)
				require.LessOrEqual(t, runtime.NumGoroutine(), before+1+watchdog.MaxInFlight)
				all := len(r.redis.seen())
				r.advance(period) // in the first one some go early with others, to stay with them
				looks, calls := r.clock.count(), len(r.redis.seen())
				begin := time.Since(r.start)
				r.advance(periods * period)
				looks, calls, all = r.clock.count()-looks, len(r.redis.seen())-calls, len(r.redis.seen())-all

				require.Empty(t, s.losses())
				require.LessOrEqual(t, int(most.Load()), before+1+2*watchdog.MaxInFlight, "some are on their way out")
				t.Log("scripts per period:", calls/periods, "in all:", all, "looks at the clock:", looks/periods)
				// Hardly any is taken along before its time, and every script is full.
				const each = n/watchdog.BatchSize + 1
				require.LessOrEqual(t, calls, periods*each)
				// What goes early does so once, by a tenth of a second.
				require.LessOrEqual(t, all, (periods+1)*each+int(n/watchdog.BatchSize*100*time.Millisecond/period))
				// Each renewal reads the clock once, as does each step: the loop wakes up for
				// many renewals at once, and for itself now and then.
				require.LessOrEqual(t, looks, 3*calls/2)

				last := map[*watchdog.Item]time.Duration{}
				for _, c := range r.redis.seen() {
					for _, rn := range c.batch {
						if at, ok := last[rn.Item]; ok && c.at-at > lease/2 {
							t.Fatalf("%v between two renewals", c.at-at)
						}
						if rn.Late > time.Second {
							t.Fatalf("%v late", rn.Late)
						}
						last[rn.Item] = c.at
					}
				}
				require.Len(t, last, n)
				for _, at := range last {
					if at < begin+(periods-1)*period {
						t.Fatalf("not renewed since %v", at)
					}
				}
			})
		})
	}
}

// What is due soon goes out when a renewal has come back, and so it does from then
// on; nothing else is renewed before its time.
func TestSoonDueFollows(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.redis.during = func(context.Context) { time.Sleep(time.Millisecond) }
		lanes := map[string]string{"elsewhere": "other"}
		r.Watchdog = watchdog.New(r.clock.now, r.redis.renew, func(it *watchdog.Item) string { return lanes[it.Group] })
		add := func(at time.Duration, group string, lease time.Duration) {
			r.until(at)
			it := &watchdog.Item{Group: group, Subject: &subject{start: r.start}}
			require.True(t, r.Add(it, r.window(lease), watchdog.Plan{Lease: lease}))
		}
		const second, ms = time.Second, time.Millisecond
		add(0, "first", 30*second)
		add(60*ms, "elsewhere", 30*second)
		add(90*ms, "soon", 30*second)
		add(130*ms, "later", 30*second)
		add(210*ms, "alone", 30*second)
		add(9095*ms, "short", 3*second) // a hundredth of that is 30 ms
		r.until(21 * second)
		at := map[string][]time.Duration{}
		for _, c := range r.redis.seen() {
			at[c.group] = append(at[c.group], c.at)
		}
		require.Equal(t, []time.Duration{10 * second, 20 * second}, at["first"])
		for group, want := range map[string]time.Duration{
			"elsewhere": 10001 * ms, "soon": 10002 * ms, "later": 10096 * ms, "alone": 10210 * ms,
		} {
			require.Len(t, at[group], 2, group)
			require.Equal(t, want, at[group][0], group)
			// The loop itself may send it when it is due again.
			require.InDelta(t, want+10*second, at[group][1], float64(2*ms), group)
		}
		require.Equal(t, 10095*ms, at["short"][0])
	})
}

// Every slot is taken by a slow server; what is due goes out as slots become
// free, in the order in which it fell due, and without polling.
func TestFullSlots(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		const groups = 4 * watchdog.MaxInFlight
		r.redis.during = func(context.Context) { time.Sleep(time.Second) }
		s := &subject{start: r.start}
		for i := range groups {
			it := &watchdog.Item{Group: string(rune('A' + i)), Subject: s}
			require.True(t, r.Add(it, r.window(lease), watchdog.Plan{Lease: lease}))
			r.advance(time.Millisecond)
		}
		r.until(9 * time.Second)
		looks := r.clock.count()
		r.until(15 * time.Second)
		require.Less(t, r.clock.count()-looks, 3*groups+10, "nothing polls")
		calls := r.redis.seen()
		require.Len(t, calls, groups)
		for i, c := range calls {
			require.Equal(t, string(rune('A'+i)), c.group)
			due := 10*time.Second + time.Duration(i)*time.Millisecond
			wave := i / watchdog.MaxInFlight
			inWave := time.Duration(i%watchdog.MaxInFlight) * time.Millisecond
			require.Equal(t, 10*time.Second+time.Duration(wave)*time.Second+inWave, c.at)
			require.Equal(t, c.at-due, c.batch[0].Late)
		}
		require.Empty(t, s.losses())
	})
}

// Items that wait for a slot are given back, lost, or go along with another one.
func TestQueuedItems(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		free := make(chan struct{})
		r.redis.during = func(context.Context) { <-free }
		for range watchdog.MaxInFlight {
			s := &subject{start: r.start}
			g := string(rune('A' + r.Len()))
			require.True(t, r.Add(&watchdog.Item{Group: g, Subject: s}, r.window(lease), watchdog.Plan{Lease: lease}))
		}
		r.until(10 * time.Second)
		require.Len(t, r.redis.seen(), watchdog.MaxInFlight)
		given, _ := r.add(6 * time.Second)
		_, lost := r.addPlan(3*time.Second, watchdog.Plan{Lease: 6 * time.Second})
		kept, keptBy := r.add(6 * time.Second)
		along, alongBy := r.add(6 * time.Second)
		r.advance(2 * time.Second)
		require.True(t, r.Remove(given))
		r.advance(time.Second)
		require.Len(t, lost.losses(), 1)
		close(free)
		r.advance(0)
		calls := r.redis.seen()[watchdog.MaxInFlight:]
		require.Len(t, calls, 1)
		require.Equal(t, []watchdog.Renewal{
			{Item: kept, Lease: 6 * time.Second, Late: time.Second},
			{Item: along, Lease: 6 * time.Second, Late: time.Second},
		}, calls[0].batch)
		r.advance(time.Minute)
		require.Empty(t, keptBy.losses())
		require.Empty(t, alongBy.losses())
	})
}

// Random operations against a model: what is watched has a window by the model
// too, is lost exactly at its end, and never after Remove said that it was not.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(redistest.Many(40, 5)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		inRoom(t, func(t *testing.T, r *room) {
			type model struct {
				it      *watchdog.Item
				s       *subject
				removed bool
			}
			chance := make(chan *rand.Rand, 1) // of the renew function, which has goroutines of its own
			chance <- rand.New(rand.NewPCG(seed, 2))
			roll := func(n int) int {
				c := <-chance
				defer func() { chance <- c }()
				return c.IntN(n)
			}
			failing := make(chan bool, 1)
			failing <- false
			ends := make(chan map[*watchdog.Item]time.Duration, 1) // when the windows end
			ends <- map[*watchdog.Item]time.Duration{}
			prolong := func(it *watchdog.Item, sentAt, lease time.Duration) {
				m := <-ends
				m[it] = max(m[it], sentAt+trusted(lease))
				ends <- m
			}
			r.Watchdog.Close()
			r.Watchdog = watchdog.New(r.clock.now, func(ctx context.Context, group string, batch []watchdog.Renewal) []watchdog.Result {
				sentAt := time.Since(r.start)
				select {
				case <-time.After(time.Duration(roll(300)) * time.Millisecond):
				case <-ctx.Done():
				}
				results := make([]watchdog.Result, len(batch))
				f := <-failing
				failing <- f
				for i, rn := range batch {
					if rn.Item.Group != group || rn.Lease <= 0 {
						panic("what must not be renewed was")
					}
					switch {
					case ctx.Err() != nil || f || roll(4) == 0:
						results[i] = watchdog.Failed
					case roll(50) == 0:
						results[i] = watchdog.NotOurs
					default:
						results[i] = watchdog.Extended
						if r.Remaining(rn.Item) > 0 { // nobody else prolongs it in this instant
							prolong(rn.Item, sentAt, rn.Lease)
						}
					}
				}
				return results
			}, nil)
			var all []*model
			for range 400 {
				leaseOf := time.Duration(1+rnd.IntN(20)) * time.Second
				var m *model
				if len(all) > 0 {
					m = all[rnd.IntN(len(all))]
				}
				switch op := rnd.IntN(10); {
				case op < 3 || m == nil:
					m = &model{s: &subject{start: r.start}}
					m.it = &watchdog.Item{Group: string(rune('a' + rnd.IntN(3))), Subject: m.s}
					plan := watchdog.Plan{Lease: leaseOf * time.Duration(rnd.IntN(2)), Max: leaseOf * time.Duration(rnd.IntN(3))}
					require.True(t, r.Add(m.it, r.window(leaseOf), plan))
					prolong(m.it, time.Since(r.start), leaseOf)
					all = append(all, m)
				case op == 3:
					was := r.Remaining(m.it) > 0
					require.Equal(t, was, r.Remove(m.it))
					require.False(t, r.Remove(m.it))
					m.removed = m.removed || was
					if was {
						require.Empty(t, m.s.losses())
					}
				case op == 4 && r.Remaining(m.it) > 0:
					r.Prolong(m.it, r.window(leaseOf))
					prolong(m.it, time.Since(r.start), leaseOf)
				case op == 5 && r.Remaining(m.it) > 0:
					r.Change(m.it, r.window(leaseOf), watchdog.Plan{Lease: leaseOf, Max: leaseOf * time.Duration(rnd.IntN(2))})
					prolong(m.it, time.Since(r.start), leaseOf)
				case op == 6:
					<-failing
					failing <- rnd.IntN(3) == 0
				}
				require.NoError(t, watchdog.Check(r.Watchdog))
				r.advance(time.Duration(rnd.IntN(1500)) * time.Millisecond)
				require.NoError(t, watchdog.Check(r.Watchdog))

				now := time.Since(r.start)
				e := <-ends
				watched := 0
				for _, m := range all {
					lost := m.s.losses()
					switch {
					case m.removed:
						if len(lost) > 0 {
							t.Fatalf("removed, and lost: %v", lost)
						}
					case len(lost) == 0:
						if left := r.Remaining(m.it); left != e[m.it]-now {
							t.Fatalf("%v remain, not %v", left, e[m.it]-now)
						}
						watched++
					default:
						require.Len(t, lost, 1)
						if lost[0].reason == watchdog.WindowOver {
							require.Equal(t, e[m.it], lost[0].at)
						} else {
							require.Less(t, lost[0].at, e[m.it])
						}
					}
				}
				ends <- e
				require.Equal(t, watched, r.Len())
			}
		})
	}
}
