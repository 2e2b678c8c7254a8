package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

const lease = 30 * time.Second

// every returns the multiples of step, n of them from first on.
func every(first, step time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = first + time.Duration(i)*step
	}
	return out
}

// A third of a lease of 30 s is 10 s; each renewal is counted from when the one
// before was sent, so that it is 360 in an hour, the last at its very end.
func TestRenewedEveryThird(t *testing.T) {
	for name, roundTrip := range map[string]time.Duration{"at once": 0, "slow": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inRoom(t, func(t *testing.T, r *room) {
				r.redis.during = func(context.Context) { time.Sleep(roundTrip) }
				it, s := r.add(lease)
				r.advance(time.Hour + roundTrip)
				require.Equal(t, every(10*time.Second, 10*time.Second, 360), r.redis.at())
				for _, c := range r.redis.seen() {
					require.Equal(t, []watchdog.Renewal{{Item: it, Lease: lease}}, c.batch)
				}
				require.Empty(t, s.losses())
				require.Equal(t, trusted(lease)-roundTrip, r.Remaining(it), "from when it was sent")
			})
		})
	}
}

func TestFailureIsTriedAgainUntilTheEnd(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.redis.answer = func(int, watchdog.Renewal) watchdog.Result { return watchdog.Failed }
		it, s := r.add(lease)
		end := trusted(lease)
		r.until(end - 1)
		require.Equal(t, every(10*time.Second, 3*time.Second, 7), r.redis.at(), "every tenth of the lease")
		require.Empty(t, s.losses())
		require.Equal(t, time.Duration(1), r.Remaining(it))
		r.until(time.Hour)
		require.Equal(t, []loss{{end, watchdog.WindowOver}}, s.losses())
		require.Len(t, r.redis.seen(), 7, "what is lost is not renewed")
		require.Zero(t, r.Remaining(it))
		require.Zero(t, r.Len())
		require.False(t, r.Remove(it))
	})
}

func TestTwoOfThreeFailAndNothingIsLost(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.redis.answer = func(nth int, _ watchdog.Renewal) watchdog.Result {
			if nth%3 != 0 {
				return watchdog.Failed
			}
			return watchdog.Extended
		}
		_, s := r.add(lease)
		// 10 s, and 3 s more for each of two failures: one round is 16 s.
		r.advance(16 * 100 * time.Second)
		require.Empty(t, s.losses())
		require.Len(t, r.redis.seen(), 300)
		require.Equal(t, []time.Duration{10e9, 13e9, 16e9, 26e9, 29e9, 32e9}, r.redis.at()[:6])
	})
}

func TestNotOursIsLostAtOnce(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.redis.during = func(context.Context) { time.Sleep(70 * time.Millisecond) }
		r.redis.answer = func(nth int, _ watchdog.Renewal) watchdog.Result {
			return []watchdog.Result{watchdog.Extended, watchdog.NotOurs}[nth-1]
		}
		_, s := r.add(lease)
		r.advance(time.Hour)
		require.Equal(t, []loss{{20*time.Second + 70*time.Millisecond, watchdog.Taken}}, s.losses())
		require.Len(t, r.redis.seen(), 2)
	})
}

// One of a batch is taken away; the others do not notice.
func TestResultsGoToTheirItems(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.redis.answer = func(_ int, rn watchdog.Renewal) watchdog.Result {
			switch rn.Item.Subject.(*subject).name {
			case 3:
				return watchdog.NotOurs
			case 7:
				return watchdog.Failed
			}
			return watchdog.Extended
		}
		var subjects []*subject
		for i := range 9 {
			s := &subject{start: r.start, name: i}
			subjects = append(subjects, s)
			require.True(t, r.Add(&watchdog.Item{Subject: s}, r.window(lease), watchdog.Plan{Lease: lease}))
		}
		r.advance(time.Minute)
		for i, s := range subjects {
			switch i {
			case 3:
				require.Equal(t, []loss{{10 * time.Second, watchdog.Taken}}, s.losses())
			case 7:
				require.Equal(t, []loss{{trusted(lease), watchdog.WindowOver}}, s.losses())
			default:
				require.Empty(t, s.losses())
			}
		}
		require.Equal(t, 7, r.Len())
	})
}

// A renew function that does not even look at its context.
func TestBlockedRenewalHidesNothing(t *testing.T) {
	for _, n := range []int{1, 20 * watchdog.BatchSize} {
		inRoom(t, func(t *testing.T, r *room) {
			free := make(chan struct{})
			r.redis.during = func(context.Context) { <-free }
			var subjects []*subject
			for range n {
				_, s := r.add(lease)
				subjects = append(subjects, s)
			}
			r.until(trusted(lease) - 1)
			for _, s := range subjects {
				require.Empty(t, s.losses())
			}
			r.until(trusted(lease))
			for _, s := range subjects {
				require.Equal(t, []loss{{trusted(lease), watchdog.WindowOver}}, s.losses())
			}
			require.Len(t, r.redis.seen(), min(watchdog.MaxInFlight, (n+99)/100))
			// A slot that is taken for ever does not keep others from being lost.
			_, late := r.add(time.Second)
			r.advance(time.Second)
			require.Len(t, late.losses(), 1)
			close(free)
			r.advance(time.Hour)
			for _, s := range subjects {
				require.Len(t, s.losses(), 1)
			}
		})
	}
}

// A renewal is given up after a sixth of the shortest lease in it, or after 3 s.
func TestRenewalIsBounded(t *testing.T) {
	for _, c := range []struct{ lease, other, bound time.Duration }{
		{600 * time.Millisecond, 600 * time.Millisecond, 100 * time.Millisecond},
		{600 * time.Millisecond, 1200 * time.Millisecond, 100 * time.Millisecond},
		{time.Hour, time.Hour, 3 * time.Second},
	} {
		inRoom(t, func(t *testing.T, r *room) {
			took := make(chan time.Duration, 100)
			r.redis.during = func(ctx context.Context) {
				start := time.Now()
				<-ctx.Done()
				took <- time.Since(start)
			}
			r.redis.answer = func(int, watchdog.Renewal) watchdog.Result { return watchdog.Failed }
			_, s := r.add(c.lease)
			r.add(c.other)
			r.until(c.lease/3 + c.bound)
			require.Equal(t, c.bound, <-took)
			r.until(trusted(c.lease))
			require.Len(t, s.losses(), 1)
		})
	}
}

func TestRemove(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		it, s := r.add(lease)
		require.True(t, r.Remove(it))
		require.False(t, r.Remove(it), "once")
		require.False(t, r.Remove(&watchdog.Item{}), "never added")
		r.advance(time.Hour)
		require.Empty(t, r.redis.seen())
		require.Empty(t, s.losses())
	})
}

func TestRemoveWhileARenewalIsUnderWay(t *testing.T) {
	for _, found := range []watchdog.Result{watchdog.Extended, watchdog.NotOurs, watchdog.Failed} {
		inRoom(t, func(t *testing.T, r *room) {
			r.redis.during = func(context.Context) { time.Sleep(time.Second) }
			r.redis.answer = func(int, watchdog.Renewal) watchdog.Result { return found }
			it, s := r.add(lease)
			r.until(10*time.Second + 500*time.Millisecond)
			require.Len(t, r.redis.seen(), 1)
			require.True(t, r.Remove(it))
			r.advance(time.Hour)
			require.Len(t, r.redis.seen(), 1)
			require.Empty(t, s.losses())
		})
	}
}

func TestAddToAWindowThatIsOver(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		w := r.window(lease)
		r.advance(trusted(lease))
		it := &watchdog.Item{Subject: &subject{}}
		require.False(t, r.Add(it, w, watchdog.Plan{Lease: lease}))
		require.False(t, r.Remove(it))
		require.Zero(t, r.Remaining(it))
		require.False(t, r.Add(it, watchdog.Window{}, watchdog.Plan{}))
		require.Zero(t, r.Len())
		r.Change(it, r.window(lease), watchdog.Plan{Lease: lease})
		r.Prolong(it, r.window(lease))
		require.Zero(t, r.Len(), "neither adds")
	})
}

func TestFixedLeaseIsNeverRenewed(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		_, s := r.addPlan(lease, watchdog.Plan{})
		r.add(lease) // would take it along
		r.advance(time.Hour)
		require.Equal(t, []loss{{trusted(lease), watchdog.WindowOver}}, s.losses())
		for _, c := range r.redis.seen() {
			require.Len(t, c.batch, 1)
		}
	})
}

// What is limited ends at the limit, less the margins of its last lease, and no
// renewal reaches beyond it.
func TestMax(t *testing.T) {
	for _, c := range []struct {
		first, lease, max time.Duration
		renewals          []time.Duration
	}{
		{3 * time.Second, 3 * time.Second, 10 * time.Second, every(1e9, 1e9, 7)},
		{3 * time.Second, 3 * time.Second, 5500 * time.Millisecond, every(1e9, 1e9, 3)},
		{lease, lease, 40 * time.Second, every(10e9, 10e9, 1)},
		{lease, lease, lease, nil},
		{2 * time.Second, lease, 2 * time.Second, nil},
	} {
		inRoom(t, func(t *testing.T, r *room) {
			_, s := r.addPlan(c.first, watchdog.Plan{Lease: c.lease, Max: c.max})
			r.add(c.lease) // is renewed at the same times and would take it along
			subject := func(rn watchdog.Renewal) bool { return rn.Item.Subject == watchdog.Subject(s) }
			r.advance(time.Hour)
			var renewals []time.Duration
			for _, call := range r.redis.seen() {
				for _, rn := range call.batch {
					if subject(rn) {
						renewals = append(renewals, call.at)
						require.LessOrEqual(t, call.at+rn.Lease, c.max)
					}
				}
			}
			require.Equal(t, c.renewals, renewals)
			require.Len(t, s.losses(), 1)
			lost := s.losses()[0].at
			require.Less(t, lost, c.max)
			require.GreaterOrEqual(t, lost, c.max-c.lease/100-2*time.Millisecond-c.lease/20)
		})
	}
}

// Extend makes the window longer than the leases of the renewals, and so may somebody
// who gives a lock away. The item is renewed all the same: nothing else tells whether
// it is ours yet.
func TestLongWindowIsRenewed(t *testing.T) {
	long := map[string]func(r *room) (*watchdog.Item, *subject){
		"prolonged": func(r *room) (*watchdog.Item, *subject) {
			it, s := r.add(lease)
			r.Prolong(it, r.window(10*lease))
			return it, s
		},
		"changed": func(r *room) (*watchdog.Item, *subject) {
			it, s := r.add(lease)
			r.Change(it, r.window(10*lease), watchdog.Plan{Lease: lease})
			return it, s
		},
		"from the beginning": func(r *room) (*watchdog.Item, *subject) {
			return r.addPlan(10*lease, watchdog.Plan{Lease: lease})
		},
		"the plan came later": func(r *room) (*watchdog.Item, *subject) {
			it, s := r.addPlan(10*lease, watchdog.Plan{})
			r.Change(it, watchdog.Window{}, watchdog.Plan{Lease: lease})
			return it, s
		},
	}
	for name, f := range long {
		t.Run(name, func(t *testing.T) {
			inRoom(t, func(t *testing.T, r *room) {
				it, s := f(r)
				require.Equal(t, trusted(10*lease), r.Remaining(it))
				r.until(lease / 3)
				require.Equal(t, []time.Duration{lease / 3}, r.redis.at())
				require.Zero(t, r.redis.seen()[0].batch[0].Late)
				require.Equal(t, trusted(10*lease)-lease/3, r.Remaining(it))
				r.until(time.Hour)
				require.Empty(t, s.losses())
				require.Len(t, r.redis.seen(), 360)
				r.redis.answer = func(int, watchdog.Renewal) watchdog.Result { return watchdog.NotOurs }
				r.Prolong(it, r.window(10*lease))
				r.advance(lease / 3)
				require.Equal(t, []loss{{time.Hour + lease/3, watchdog.Taken}}, s.losses())
			})
		})
	}
}

func TestProlongNeverShortens(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		it, s := r.addPlan(lease, watchdog.Plan{})
		r.Prolong(it, r.window(time.Second))
		r.Change(it, r.window(time.Second), watchdog.Plan{})
		require.Equal(t, trusted(lease), r.Remaining(it))
		r.advance(10 * time.Second)
		r.Prolong(it, r.window(lease))
		require.Equal(t, trusted(lease), r.Remaining(it))
		r.advance(time.Hour)
		require.Equal(t, []loss{{10*time.Second + trusted(lease), watchdog.WindowOver}}, s.losses())
	})
}

// The window moves, and the plan changes, while a renewal is under way.
func TestChangeWhileARenewalIsUnderWay(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.redis.during = func(context.Context) { time.Sleep(time.Second) }
		it, s := r.add(lease)
		r.until(10*time.Second + 500*time.Millisecond)
		r.Change(it, r.window(lease), watchdog.Plan{Lease: 6 * time.Second})
		r.until(11 * time.Second)
		require.Equal(t, trusted(lease)-500*time.Millisecond, r.Remaining(it), "the later of both windows")
		r.advance(time.Minute)
		require.Empty(t, s.losses())
		at := r.redis.at()
		require.Equal(t, 12*time.Second, at[1], "a third of the new lease after the one before was sent")
		require.Equal(t, 14*time.Second, at[2])

		r.Change(it, watchdog.Window{}, watchdog.Plan{})
		before := len(r.redis.seen())
		r.advance(time.Minute)
		require.Len(t, s.losses(), 1, "no longer renewed")
		require.Len(t, r.redis.seen(), before)
	})
}

func TestShorterItemWakesTheLoop(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.advance(time.Hour)
		r.add(10 * time.Hour)
		r.advance(1500 * time.Millisecond)
		_, s := r.addPlan(100*time.Millisecond, watchdog.Plan{}) // long before the next tick
		at := time.Since(r.start) + trusted(100*time.Millisecond)
		r.until(at)
		require.Equal(t, []loss{{at, watchdog.WindowOver}}, s.losses())

		it, s := r.addPlan(lease, watchdog.Plan{})
		r.advance(20 * time.Second)
		due := time.Since(r.start) // a third of it is over long since
		r.Change(it, watchdog.Window{}, watchdog.Plan{Lease: lease})
		r.advance(0)
		require.Equal(t, []time.Duration{due}, r.redis.at())
		require.Empty(t, s.losses())
	})
}

func TestGroupsAreNotMixed(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		count := map[string]int{}
		for i := range 1000 {
			g := string(rune('a' + i%7))
			require.True(t, r.Add(&watchdog.Item{Group: g, Subject: &subject{}}, r.window(lease), watchdog.Plan{Lease: lease}))
			count[g]++
		}
		r.until(10 * time.Second)
		for _, c := range r.redis.seen() {
			require.LessOrEqual(t, len(c.batch), watchdog.BatchSize)
			for _, rn := range c.batch {
				require.Equal(t, c.group, rn.Item.Group)
				count[c.group]--
			}
		}
		for g, n := range count {
			require.Zero(t, n, "each of %s once", g)
		}
		require.Len(t, r.redis.seen(), 14, "143 items of each group")
	})
}

// The machine slept, or somebody set the time, while a long timer runs.
func TestJumpIsNoticedWithinASecond(t *testing.T) {
	for _, back := range []time.Duration{0, -time.Hour} {
		inRoom(t, func(t *testing.T, r *room) {
			_, fixed := r.addPlan(time.Hour, watchdog.Plan{})
			_, renewed := r.add(10 * time.Hour)
			r.advance(12*time.Second + 345*time.Millisecond)
			r.clock.jump(back) // once back means nothing
			r.advance(2 * time.Second)
			require.Empty(t, fixed.losses())
			r.clock.jump(time.Hour - back)
			before := time.Since(r.start)
			r.advance(time.Second)
			require.Len(t, fixed.losses(), 1)
			require.LessOrEqual(t, fixed.losses()[0].at-before, time.Second)
			require.Empty(t, renewed.losses())
		})
	}
}

// After a jump the items are in another order than by the monotonic clock alone.
func TestJumpReorders(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		_, early := r.addPlan(10*time.Hour, watchdog.Plan{})
		r.clock.jump(time.Hour)
		_, late := r.addPlan(9*time.Hour+30*time.Minute, watchdog.Plan{})
		r.advance(24 * time.Hour)
		require.Equal(t, []loss{{trusted(10*time.Hour) - time.Hour, watchdog.WindowOver}}, early.losses())
		require.Equal(t, []loss{{trusted(9*time.Hour + 30*time.Minute), watchdog.WindowOver}}, late.losses())
	})
}

// A wall clock that runs fast shows in no single second.
func TestDriftIsNoticed(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		_, s := r.addPlan(lease, watchdog.Plan{})
		lostAt := time.Duration(0)
		for range 30 {
			r.advance(time.Second)
			r.clock.jump(200 * time.Millisecond)
			if len(s.losses()) > 0 {
				lostAt = s.losses()[0].at
				break
			}
		}
		// By the wall 29.698 s are over after 25 rounds of 1.2 s.
		require.Greater(t, lostAt, 24*time.Second)
		require.LessOrEqual(t, lostAt, 26*time.Second)
	})
}

// The clocks come to disagree by less than is looked at: no jump, but time all
// the same, and no reason to spin until the other clock has come along.
func TestSmallStepForward(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		_, s := r.addPlan(lease, watchdog.Plan{})
		r.add(10 * lease)
		r.advance(5 * time.Second)
		r.clock.jump(100 * time.Millisecond)
		before := r.clock.count()
		r.until(trusted(lease))
		require.Less(t, r.clock.count()-before, 30)
		require.Equal(t, []loss{{trusted(lease) - 100*time.Millisecond, watchdog.WindowOver}}, s.losses())
	})
}

// The clocks disagree by less than is looked at, when an item is due: it must
// not be renewed for that, nor twice at a time.
func TestSmallStepBackSendsNothing(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.clock.jump(100 * time.Millisecond) // between the two readings
		w := r.window(lease)
		r.clock.jump(100 * time.Millisecond)
		s := &subject{start: r.start}
		require.True(t, r.Add(&watchdog.Item{Group: "g", Subject: s}, w, watchdog.Plan{}))
		r.advance(time.Second)
		r.clock.jump(-100 * time.Millisecond)
		r.until(trusted(lease))
		require.Equal(t, []loss{{trusted(lease), watchdog.WindowOver}}, s.losses())
		require.Empty(t, r.redis.seen(), "its lease is fixed")

		free := make(chan struct{})
		defer close(free)
		r.redis.during = func(context.Context) { <-free }
		w = r.window(lease)
		r.clock.jump(100 * time.Millisecond)
		s = &subject{start: time.Now()}
		require.True(t, r.Add(&watchdog.Item{Group: "g", Subject: s}, w, watchdog.Plan{Lease: lease}))
		r.advance(11 * time.Second)
		r.clock.jump(-100 * time.Millisecond)
		r.advance(lease)
		require.Equal(t, []loss{{trusted(lease), watchdog.WindowOver}}, s.losses())
		require.Len(t, r.redis.seen(), 1, "one at a time")
	})
}

// A process that was stopped finds one item due and another one lost. The lost
// one must not ride along: it would be kept closed for another lease.
func TestWhatIsLostIsNotTakenAlong(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		long, s := r.add(3 * lease)                                                 // due at 30 s
		_, s2 := r.addPlan(2*lease, watchdog.Plan{Lease: 2*lease + 48*time.Second}) // due at 36 s, over at 59 s
		r.advance(5 * time.Second)
		r.clock.jump(65 * time.Second)
		r.advance(time.Second)
		require.Empty(t, s.losses())
		require.Len(t, s2.losses(), 1)
		require.Len(t, r.redis.seen(), 1)
		late := r.redis.seen()[0].batch[0].Late
		require.Equal(t, []watchdog.Renewal{{Item: long, Lease: 3 * lease, Late: late}}, r.redis.seen()[0].batch)
		require.Greater(t, late, 40*time.Second-time.Second)
	})
}

func TestCloseForgetsAndWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gone := false
		redis := &fakeRedis{start: time.Now(), during: func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second) // on its way out
			gone = true
		}}
		redis.answer = func(int, watchdog.Renewal) watchdog.Result { return watchdog.NotOurs }
		clk := newClock()
		w := watchdog.New(clk.now, redis.renew, nil)
		s := &subject{}
		it := &watchdog.Item{Subject: s}
		require.True(t, w.Add(it, watchdog.NewWindow(clk.now(), lease), watchdog.Plan{Lease: lease}))
		time.Sleep(11 * time.Second)
		start := time.Now()
		w.Close()
		require.True(t, gone)
		require.Equal(t, time.Second, time.Since(start), "the renewal was told to end")
		require.Zero(t, w.Len())
		require.Zero(t, w.Remaining(it))
		require.False(t, w.Remove(it))
		require.False(t, w.Add(&watchdog.Item{}, watchdog.NewWindow(clk.now(), lease), watchdog.Plan{}))
		w.Change(it, watchdog.NewWindow(clk.now(), lease), watchdog.Plan{Lease: lease})
		w.Close()
		time.Sleep(time.Hour)
		require.Len(t, redis.seen(), 1)
		require.Empty(t, s.losses())
		require.NoError(t, watchdog.Check(w))
	})
	watchdog.New(watchdog.SystemClock(), nil, nil).Close() // never used
}

// With nothing to do the loop looks once a second, because of the clocks; with
// nothing to watch not even that.
func TestQuiet(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		it, _ := r.add(10 * time.Hour)
		before := r.clock.count()
		r.advance(time.Hour)
		require.LessOrEqual(t, r.clock.count()-before, 3601)
		require.Empty(t, r.redis.seen())
		require.True(t, r.Remove(it))
		r.advance(time.Second)
		before = r.clock.count()
		r.advance(10 * time.Hour)
		require.LessOrEqual(t, r.clock.count()-before, 11)
	})
}

// A lock that is taken and given back all the time leaves the loop alone.
func TestChurnDoesNotWakeTheLoop(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		before := r.clock.count()
		const n = 5000
		for range n {
			it, _ := r.add(lease)
			require.True(t, r.Remove(it))
			r.advance(time.Millisecond)
		}
		looks := r.clock.count() - before - 2*n // window and Add look at the clock too
		require.Less(t, looks, 20)
	})
}
