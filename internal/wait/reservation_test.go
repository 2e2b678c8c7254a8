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

	"github.com/latchkey-go/latchkey/internal/wait"
)

// always refuses, for a lease of an hour.
func always(int) (wait.Answer, error) { return wait.Answer{After: time.Hour}, nil }

// A reserved is a line of two who are always refused, the head with a reservation.
type reserved struct {
	*testing.T
	ls         *wait.Lines
	hints      *hints
	head, next *claim
	cancel     context.CancelFunc // of the head
	policy     *wait.Policy       // of the head
	first, two <-chan result
	wait.Reservation
}

func reservation(t *testing.T) *reserved {
	t.Helper()
	p := &reserved{T: t, ls: wait.NewLines(), hints: newHints(), head: newClaim(always), next: newClaim(always)}
	p.policy = policy(p.hints)
	ctx, cancel := context.WithCancel(t.Context())
	p.cancel = cancel
	t.Cleanup(cancel)
	p.first = until(ctx, p.ls, "k", p.head, p.policy)
	p.hints.confirm()
	synctest.Wait()
	p.two = until(t.Context(), p.ls, "k", p.next, policy(p.hints))
	p.Reservation = p.again()
	require.Same(t, p.head, p.Claim)
	p.head.asked = nil
	return p
}

// again reservations to the head, which nobody has reserved to.
func (p *reserved) again() wait.Reservation {
	p.Helper()
	pl, ok := p.ls.ReserveHead("k")
	require.True(p, ok, "a reservation to a head that waits")
	_, twice := p.ls.ReserveHead("k")
	require.False(p, twice, "a second one")
	return pl
}

// end has who is left go, and sees that nothing is.
func (p *reserved) end(left ...<-chan result) {
	p.Helper()
	for _, ch := range left {
		pl, ok := p.ls.ReserveHead("k")
		require.True(p, ok)
		require.True(p, pl.Commit(0, func() {}))
		require.NoError(p, (<-ch).err)
	}
	require.Zero(p, p.ls.Waiting())
	opened, closed := p.hints.counts()
	require.Equal(p, opened, closed, "hints left open")
}

func TestReserveHeadOnlyToWhoSleeps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h := wait.NewLines(), newHints()
		_, ok := ls.ReserveHead("k")
		require.False(t, ok, "nobody is there")
		asking := make(chan struct{})
		c := newClaim(func(nth int) (wait.Answer, error) {
			<-asking
			return always(nth)
		})
		ch := until(t.Context(), ls, "k", c, policy(h))
		_, ok = ls.ReserveHead("k")
		require.False(t, ok, "it is asking, and will hear of what is free by that")
		asking <- struct{}{}
		synctest.Wait()
		p, ok := ls.ReserveHead("k")
		require.True(t, ok)
		p.Cancel()
		h.confirm() // it asks again
		synctest.Wait()
		_, ok = ls.ReserveHead("k")
		require.False(t, ok)
		asking <- struct{}{}
		synctest.Wait()
		p, ok = ls.ReserveHead("k")
		require.True(t, ok)
		require.True(t, p.Commit(0, func() {}))
		require.NoError(t, (<-ch).err)
	})
}

func TestReservationKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		known := false
		require.True(t, p.Commit(time.Minute, func() {
			synctest.Wait()
			require.Empty(t, p.first, "it went on before the claim knew")
			known = true
		}))
		require.NoError(t, (<-p.first).err)
		require.True(t, known)
		require.Empty(t, p.head.at(), "asked")
		advance(recheck - recheck/4 - ms)
		require.Empty(t, p.next.at(), "the next one asked, though somebody has just been given it")
		p.end(p.two)
	})
}

// asked is hints that call a function when they are asked whether they flow.
type asked struct {
	*hints
	live func()
}

func (a asked) Live() bool {
	a.live()
	return a.hints.Live()
}

// A head that is about to sleep is given the thing, while a nudge for the head
// before it is left over.
func TestReservationKeptAtANudge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h := wait.NewLines(), newHints()
		granted := make(chan struct{})
		first := until(t.Context(), ls, "k", newClaim(func(int) (wait.Answer, error) {
			<-granted
			return wait.Answer{Granted: true, After: time.Hour}, nil
		}), policy(h))
		p := policy(h)
		p.Listen = func() wait.Hints {
			return asked{h.open().(*hints), func() {
				pl, ok := ls.ReserveHead("k")
				require.True(t, ok)
				require.True(t, pl.Commit(time.Hour, func() {}))
			}}
		}
		next := until(t.Context(), ls, "k", newClaim(always), p)
		require.True(t, ls.Nudge("k"))
		close(granted)
		require.NoError(t, (<-first).err)
		require.NoError(t, (<-next).err)
		require.Zero(t, ls.Waiting())
	})
}

// The next one need not ask before the lease of what was given is over.
func TestReservationKeptForALease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		require.True(t, p.Commit(700*ms, func() {}))
		require.NoError(t, (<-p.first).err)
		advance(701 * ms)
		require.Empty(t, p.next.at())
		advance(2 * ms)
		require.Len(t, p.next.at(), 1)
		p.end(p.two)
	})
}

func TestReservationToOneWhoLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		p.cancel()
		require.ErrorIs(t, (<-p.first).err, context.Canceled)
		require.True(t, p.policy.Reserved, "it must know that it may yet be given it")
		synctest.Wait()
		require.Len(t, p.next.at(), 1, "what the head has heard may have been for the next one")
		require.False(t, p.Commit(0, func() { t.Error("it has gone") }))
		p.Cancel()  // these change nothing any more
		p.Unknown() //
		p.end(p.two)
	})
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		p.Cancel()
		p.cancel()
		require.ErrorIs(t, (<-p.first).err, context.Canceled)
		require.False(t, p.policy.Reserved)
		synctest.Wait()
		p.end(p.two)
	})
}

// Whoever is given it in the moment in which its wait ends has it.
func TestReservationKeptAsTheWaitEnds(t *testing.T) {
	for name, end := range map[string]func(*reserved){
		"cancelled": func(p *reserved) { p.cancel() },
		"hint":      func(p *reserved) { p.hints.hint() },
		"both":      func(p *reserved) { p.hints.hint(); p.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := reservation(t)
				require.True(t, p.Commit(0, func() {
					end(p)
					synctest.Wait() // it has seen that, and waits for the claim to know
					require.Empty(t, p.first)
				}))
				require.NoError(t, (<-p.first).err)
				require.Empty(t, p.head.at(), "asked")
				p.end(p.two)
			})
		})
	}
}

// closing are hints that call f as they are closed.
type closing struct {
	*hints
	f func()
}

func (c closing) Close() { c.f(); c.hints.Close() }

// Whoever is given it does not wait for what nobody needs any more to be closed.
func TestKeepTellsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, p := wait.NewLines(), newHints(), policy(nil)
		var first <-chan result
		p.Listen = func() wait.Hints {
			h.open()
			return closing{h, func() { require.NoError(t, (<-first).err) }}
		}
		first = until(t.Context(), ls, "k", newClaim(always), p)
		synctest.Wait()
		pl, ok := ls.ReserveHead("k")
		require.True(t, ok)
		require.True(t, pl.Commit(0, func() {}))
		opened, closed := h.counts()
		require.Equal(t, opened, closed, "hints left open")
	})
}

// A hint comes while a reservation is under way: the head asks, and is told by its
// claim, which waits for the giver.
func TestReservationKeptWhileItAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		kept := make(chan struct{})
		p.head.answer = func(int) (wait.Answer, error) {
			<-kept
			return wait.Answer{Granted: true, After: time.Hour}, nil
		}
		p.hints.hint()
		synctest.Wait()
		require.Len(t, p.head.at(), 1)
		require.True(t, p.Commit(time.Hour, func() { close(kept) }))
		require.NoError(t, (<-p.first).err)
		advance(recheck / 2)
		require.Empty(t, p.next.at(), "asked, though the head has just been given it")
		p.end(p.two)
	})
}

func TestReservationInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		p.Unknown()
		synctest.Wait()
		require.Len(t, p.head.at(), 1, "it asks")
		p.Unknown() // once more, when the giver knows more
		synctest.Wait()
		require.Len(t, p.head.at(), 2)
		_, ok := p.ls.ReserveHead("k")
		require.False(t, ok, "what may have been given it is not settled")
		p.cancel()
		require.ErrorIs(t, (<-p.first).err, context.Canceled)
		require.True(t, p.policy.Reserved)
		synctest.Wait()
		p.end(p.two)
	})
	inBubble(t, func(t *testing.T) { // while it asks already
		p := reservation(t)
		asking := make(chan struct{})
		p.head.answer = func(nth int) (wait.Answer, error) {
			<-asking
			return always(nth)
		}
		p.hints.hint()
		synctest.Wait()
		p.Unknown()
		asking <- struct{}{}
		asking <- struct{}{} // it asks again, since the first may have come too early
		synctest.Wait()
		require.Len(t, p.head.at(), 2)
		p.cancel()
		<-p.first
		synctest.Wait()
		p.end(p.two)
	})
}

// One after the other is given it before they have seen that they have come to be
// the first, and though they are about to give up.
func TestReservationsCommittedInARow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := reservation(t)
		ctx, cancel := context.WithCancel(t.Context())
		all := []<-chan result{p.first, p.two}
		for i := range 20 {
			mine := ctx
			if i%2 == 0 {
				mine = t.Context()
			}
			all = append(all, until(mine, p.ls, "k", newClaim(always), policy(p.hints)))
		}
		cancel()
		kept := 0
		for ok := true; ok; p.Reservation, ok = p.ls.ReserveHead("k") {
			if p.Commit(time.Hour, func() {}) {
				kept++
			}
		}
		// Where one who gave up was quicker, the head was asking when the row ended.
		for synctest.Wait(); p.ls.Waiting() > 0; synctest.Wait() {
			pl, ok := p.ls.ReserveHead("k")
			require.True(p, ok, "a reservation to a head that waits")
			if pl.Commit(time.Hour, func() {}) {
				kept++
			}
		}
		for _, ch := range all {
			if r := <-ch; r.err == nil {
				kept--
			}
		}
		require.Zero(t, kept, "who was given it and who has it")
		p.end()
	})
}

// handOn gives the lock to the next one of the line if it can, as a holder does
// that gives it back.
func (l *lock) handOn(ls *wait.Lines, rnd func(int) int) bool {
	p, ok := ls.ReserveHead("k")
	if !ok {
		return false
	}
	switch rnd(8) {
	case 0:
		p.Cancel()
		return false
	case 1: // nobody knows; it was not given
		p.Unknown()
		return false
	case 2:
		time.Sleep(2 * ms) // a script passes it on
	}
	return p.Commit(l.lease, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.granted = append(l.granted, p.Claim.(taker).who)
	})
}

// As TestNoWakeUpIsLost, with holders who hand on.
func TestNoWakeUpIsLostByHandingOn(t *testing.T) {
	for seed := range uint64(40) {
		inBubble(t, func(t *testing.T) {
			const processes, waiters = 2, 60
			rnd := rand.New(rand.NewPCG(seed, 11))
			var mu sync.Mutex
			random := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
			l := newLock(time.Hour)
			var lines [processes]*wait.Lines
			for i := range lines {
				lines[i] = wait.NewLines()
			}
			var shared [3]context.Context
			for i := range shared {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random(800))*ms)
				defer cancel()
				shared[i] = ctx
			}
			var in, handed int
			var wg sync.WaitGroup
			for i := range processes * waiters {
				ls := lines[i%processes]
				wg.Go(func() {
					time.Sleep(time.Duration(random(500)) * ms)
					ctx := t.Context() // many have the same one
					switch random(4) {
					case 0:
						ctx = shared[random(len(shared))]
					case 1:
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, time.Duration(random(800))*ms)
						defer cancel()
					}
					p := l.policy()
					if err := some(i/processes)(ctx, ls, "k", taker{l, i}, p); err != nil {
						if ctx == t.Context() {
							t.Errorf("seed %d: %d never got it: %v", seed, i, err)
						}
						return
					}
					l.mu.Lock()
					if in++; in > 1 {
						t.Errorf("seed %d: %d are in", seed, in)
					}
					l.mu.Unlock()
					time.Sleep(time.Duration(random(10)) * ms)
					l.mu.Lock()
					in--
					l.mu.Unlock()
					if l.handOn(ls, random) {
						l.mu.Lock()
						handed++
						l.mu.Unlock()
						return
					}
					l.release()
				})
			}
			wg.Wait()
			require.Positive(t, handed, fmt.Sprint("seed ", seed))
			// Holds, and a round trip or three for each.
			require.LessOrEqual(t, time.Since(l.start), time.Second+time.Duration(len(l.granted))*20*ms)
			require.Zero(t, l.listening())
			for _, ls := range lines {
				require.Zero(t, ls.Waiting())
			}
		})
	}
}
