package wait_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// A lock is a simulated lock: it is taken, and freed with a hint to everybody
// who listens. The hints of a listener flow a while after it opened them.
type lock struct {
	start   time.Time
	lease   time.Duration
	latency time.Duration // of subscribing
	lost    func() bool   // a hint; nil: none is

	mu        sync.Mutex
	held      bool
	freedAt   time.Duration
	idle      time.Duration // longest time that it was free with somebody waiting
	tries     int
	granted   []int // who, in order
	listeners map[*listener]bool
	opened    int
}

type listener struct {
	lock *lock
	c    chan struct{}
	live bool
}

func newLock(lease time.Duration) *lock {
	return &lock{start: time.Now(), lease: lease, latency: 3 * ms, listeners: map[*listener]bool{}}
}

func (l *lock) listen() wait.Hints {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &listener{lock: l, c: make(chan struct{}, 1)}
	l.listeners[h] = true
	l.opened++
	time.AfterFunc(l.latency, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		h.live = true
		h.hint()
	})
	return h
}

func (h *listener) hint() {
	select {
	case h.c <- struct{}{}:
	default:
	}
}
func (h *listener) C() <-chan struct{} { return h.c }
func (h *listener) Live() bool         { h.lock.mu.Lock(); defer h.lock.mu.Unlock(); return h.live }
func (h *listener) Dead() bool         { return false }
func (h *listener) Close() {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	delete(h.lock.listeners, h)
}

// release frees the lock and tells those whose hints flow.
func (l *lock) release() {
	l.mu.Lock()
	l.held, l.freedAt = false, time.Since(l.start)
	l.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.listeners {
		if h.live && (l.lost == nil || !l.lost()) {
			h.hint()
		}
	}
}

// A taker wants the lock; asking takes a round trip.
type taker struct {
	*lock
	who int
}

func (tk taker) Try(ctx context.Context) (wait.Answer, error) {
	select {
	case <-time.After(ms):
	case <-ctx.Done():
		return wait.Answer{}, ctx.Err()
	}
	l := tk.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.held {
		return wait.Answer{After: l.lease}, nil
	}
	l.idle = max(l.idle, time.Since(l.start)-l.freedAt)
	l.held = true
	l.granted = append(l.granted, tk.who)
	return wait.Answer{Granted: true, After: l.lease}, nil
}

func (l *lock) policy() *wait.Policy {
	p := policy(nil)
	p.Listen = l.listen
	return p
}

func (l *lock) listening() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.listeners)
}

func TestFirstComeFirstServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 20
		ls, l := wait.NewLines(), newLock(time.Hour)
		require.NoError(t, ls.Until(t.Context(), "k", taker{l, 0}, l.policy()))
		var all []<-chan result
		for i := range n {
			all = append(all, until(t.Context(), ls, "k", taker{l, i + 1}, l.policy()))
		}
		advance(time.Second)
		require.Equal(t, n, ls.Waiting())
		require.Equal(t, 3, l.tries, "only the head asks: at first, and when its hints flow")
		for i := range n {
			tries := l.tries
			l.release()
			advance(10 * ms)
			require.NoError(t, (<-all[i]).err)
			require.Equal(t, i+2, len(l.granted))
			require.Equal(t, i+1, l.granted[i+1], "in order")
			require.Equal(t, tries+1, l.tries, "one ask for each grant")
			require.Equal(t, n-i-1, ls.Waiting())
		}
		require.Equal(t, 1, l.opened)
		require.Zero(t, l.listening())
	})
}

// Two keys, two lines.
func TestLinesAreSeparate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, a, b := wait.NewLines(), newLock(time.Hour), newLock(time.Hour)
		require.NoError(t, ls.Until(t.Context(), "a", taker{a, 0}, a.policy()))
		waiter := until(t.Context(), ls, "a", taker{a, 1}, a.policy())
		require.NoError(t, ls.Until(t.Context(), "b", taker{b, 0}, b.policy()))
		a.release()
		require.NoError(t, (<-waiter).err)
	})
}

// After a grant the next in line asks at a hint, at the end of the lease, or at
// the recheck, and not before.
func TestNextSleepsAfterAGrant(t *testing.T) {
	for name, c := range map[string]struct {
		exclusive bool
		lease     time.Duration
		hint      time.Duration
		want      time.Duration // after the grant
		jitter    bool
	}{
		"a hint":                 {true, time.Hour, 500 * ms, 500 * ms, false},
		"the end of the lease":   {true, 300 * ms, 0, 302 * ms, false},
		"the recheck":            {true, time.Hour, 0, recheck, true},
		"lease unknown":          {true, 0, 0, recheck, true},
		"not exclusive: at once": {false, time.Hour, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				ls, h := wait.NewLines(), newHints()
				h.live = true
				p := policy(h)
				p.Exclusive = c.exclusive
				first := until(t.Context(), ls, "k", newClaim(refuse(1, wait.Answer{After: c.lease})), p)
				cl := newClaim(refuse(0, wait.Answer{}))
				second := until(t.Context(), ls, "k", cl, p)
				advance(100 * ms)
				h.hint()
				require.NoError(t, (<-first).err)
				synctest.Wait()
				if c.hint > 0 {
					time.AfterFunc(c.hint, h.hint)
				}
				got := (<-second).at - 100*ms
				if c.jitter {
					within(t, c.want, got)
				} else {
					require.Equal(t, c.want, got)
				}
				require.Len(t, cl.at(), 1)
				_, closed := h.counts()
				require.Equal(t, 1, closed)
			})
		})
	}
}

// The head was granted at its first ask, before anybody listened: what happened
// until the next one's hints flow, it sees by asking then.
func TestReleaseBeforeAnybodyListens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, l := wait.NewLines(), newLock(time.Hour)
		l.latency = 50 * ms
		first := until(t.Context(), ls, "k", taker{l, 1}, l.policy())
		second := until(t.Context(), ls, "k", taker{l, 2}, l.policy())
		require.NoError(t, (<-first).err)
		advance(10 * ms)
		l.release()
		require.Equal(t, result{nil, 52 * ms}, <-second)
	})
}

// The head gives up: the next one asks at once, because the hint may have been
// for the one who went. Whoever gives up in the middle is not missed.
func TestGivingUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h := wait.NewLines(), newHints()
		h.live = true
		var claims []*claim
		var cancels []context.CancelFunc
		var results []<-chan result
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			c := newClaim(func(int) (wait.Answer, error) { return wait.Answer{}, nil })
			claims, cancels = append(claims, c), append(cancels, cancel)
			results = append(results, until(ctx, ls, "k", c, policy(h)))
		}
		give := func(i int) {
			cancels[i]()
			require.Equal(t, context.Canceled, (<-results[i]).err)
			synctest.Wait()
		}
		asked := func() (n []int) {
			for _, c := range claims {
				n = append(n, len(c.at()))
			}
			return n
		}
		require.Equal(t, []int{1, 0, 0, 0, 0}, asked())
		give(1)
		require.Equal(t, []int{1, 0, 0, 0, 0}, asked())
		advance(100 * ms)
		give(0)
		require.Equal(t, []int{1, 0, 1, 0, 0}, asked())
		give(4) // the last
		h.hint()
		synctest.Wait()
		require.Equal(t, []int{1, 0, 2, 0, 0}, asked())
		give(2)
		require.Equal(t, []int{1, 0, 2, 1, 0}, asked())
		_, closed := h.counts()
		require.Zero(t, closed)
		give(3)
		opened, closed := h.counts()
		require.Equal(t, []int{1, 1}, []int{opened, closed})
		require.Zero(t, ls.Waiting())
	})
}

// The head goes, and so does, at the same moment, everybody behind it.
func TestAllGiveUpAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, l := wait.NewLines(), newLock(time.Hour)
		l.held = true
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan result
		for i := range 100 {
			all = append(all, begin(func() error { return some(i)(ctx, ls, "k", taker{l, i}, l.policy()) }))
		}
		advance(time.Second)
		cancel()
		for _, r := range all {
			require.Equal(t, result{context.Canceled, time.Second}, result{(<-r).err, time.Second})
		}
		synctest.Wait()
		require.Zero(t, l.listening())
		require.Zero(t, ls.Waiting())
	})
}

func TestTenThousandWaiters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 10_000
		ls, l := wait.NewLines(), newLock(time.Hour)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if some(i)(t.Context(), ls, "k", taker{l, i}, l.policy()) == nil {
					time.Sleep(ms)
					l.release()
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		require.Len(t, l.granted, n)
		// One for each, and one when the hints begin to flow.
		require.LessOrEqual(t, l.tries, n+2)
		require.Equal(t, 1, l.opened)
		require.Zero(t, l.listening())
		require.LessOrEqual(t, l.idle, 10*ms)
	})
}

// Everybody comes and goes at random, from several processes. Whoever does not
// give up gets the lock, and it is never free for longer than a recheck while
// somebody waits, or, when no hint is lost, than the way of a hint.
func TestNoWakeUpIsLost(t *testing.T) {
	for _, losing := range []bool{false, true} {
		for seed := range uint64(redistest.Many(60, 20)) {
			inBubble(t, func(t *testing.T) {
				const processes, waiters = 3, 40
				rnd := rand.New(rand.NewPCG(seed, 7))
				l := newLock(time.Hour)
				if losing {
					l.lost = func() bool { return rnd.IntN(3) == 0 } // called under l.mu
				}
				var lines [processes]*wait.Lines
				for i := range lines {
					lines[i] = wait.NewLines()
				}
				type plan struct{ begin, patience, hold time.Duration }
				var plans []plan
				for range processes * waiters {
					p := plan{
						begin:    time.Duration(rnd.IntN(2000)) * ms,
						patience: time.Hour,
						hold:     time.Duration(rnd.IntN(30)) * ms,
					}
					if rnd.IntN(2) == 0 {
						p.patience = time.Duration(rnd.IntN(1500)) * ms
					}
					plans = append(plans, p)
				}
				var wg sync.WaitGroup
				errs := make([]error, len(plans))
				for i, pl := range plans {
					wg.Go(func() {
						time.Sleep(pl.begin)
						ctx, cancel := context.WithTimeout(t.Context(), pl.patience)
						defer cancel()
						errs[i] = some(i/processes)(ctx, lines[i%processes], "k", taker{l, i}, l.policy())
						if errs[i] != nil {
							return
						}
						time.Sleep(pl.hold)
						l.release()
					})
				}
				wg.Wait()
				for i, pl := range plans {
					if pl.patience == time.Hour {
						require.NoError(t, errs[i], fmt.Sprint("seed ", seed, " waiter ", i))
					}
				}
				require.Zero(t, l.listening())
				took := time.Since(l.start)
				if losing {
					require.LessOrEqual(t, took, 2*time.Second+time.Duration(len(l.granted))*recheck)
				} else {
					// All holds, a round trip or two for each, and the time in which they come.
					require.LessOrEqual(t, took, 2*time.Second+time.Duration(len(l.granted))*40*ms)
				}
				for _, ls := range lines {
					require.Zero(t, ls.Waiting())
				}
			})
		}
	}
}

// What was said about a line that nobody stands in any more says nothing about the
// next one, of another thing.
func TestLineEndsWithItsLast(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls := wait.NewLines()
		first := newClaim(func(int) (wait.Answer, error) {
			ls.HoldBack("a", time.Hour)
			require.True(t, ls.Nudge("a"))
			return wait.Answer{Granted: true}, nil
		})
		require.NoError(t, ls.Until(t.Context(), "a", first, policy(newHints())))
		require.False(t, ls.Waits("a"))

		h, second := newHints(), newClaim(refuse(2, wait.Answer{}))
		done := until(t.Context(), ls, "b", second, policy(h))
		require.Len(t, second.at(), 1, "nobody has nudged it")
		h.confirm()
		h.hint()
		require.NoError(t, (<-done).err)
		require.Equal(t, []time.Duration{0, 0, 0}, second.at(), "it follows its hints")
	})
}
