package wait_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A watched is a context that counts who wants to be told of its end.
type watched struct {
	context.Context

	mu        sync.Mutex
	now, ever int
}

func (*watched) Value(any) any { return nil } // else the context package would tell them itself

func (w *watched) AfterFunc(f func()) (stop func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	w.ever++
	gone := sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now--
	})
	inner := context.AfterFunc(w.Context, func() {
		gone()
		f()
	})
	return func() bool {
		gone()
		return inner()
	}
}

func (w *watched) counts() (now, ever int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now, w.ever
}

// A mob is a line whose head is always refused, with many behind it that have
// followed with one context.
type mob struct {
	*testing.T
	ls      *wait.Lines
	stop    context.CancelFunc // of the head
	ctx     *watched
	cancel  context.CancelFunc
	claims  []*header
	results []<-chan result
}

func inMob(t *testing.T, n int, f func(m *mob)) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		m := &mob{T: t, ls: wait.NewLines()}
		h := newHints()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		m.stop = stop
		first := until(ctx, m.ls, "k", newClaim(always), policy(h))
		h.confirm()
		synctest.Wait()
		ctx, m.cancel = context.WithCancel(t.Context())
		defer m.cancel()
		m.ctx = &watched{Context: ctx}
		for range n {
			c := &header{claim: newClaim(always)}
			m.claims = append(m.claims, c)
			m.results = append(m.results, follow(m.ctx, m.ls, "k", c, policy(h)))
		}
		require.Equal(t, 1+n, m.ls.Waiting())
		f(m)
		stop()
		<-first
		synctest.Wait()
		require.Zero(t, m.ls.Waiting())
		now, _ := m.ctx.counts()
		require.Zero(t, now, "somebody is to be told yet")
	})
}

// ended requires that the waits have ended by now with that error.
func (m *mob) ended(want error, results ...<-chan result) {
	m.Helper()
	synctest.Wait()
	for i, ch := range results {
		require.NotEmpty(m, ch, "%d waits yet", i)
		require.ErrorIs(m, (<-ch).err, want)
	}
}

// However many wait with one context, one of them is told of its end, and all of them
// end at that moment.
func TestCrew(t *testing.T) {
	inMob(t, 50, func(m *mob) {
		now, ever := m.ctx.counts()
		require.Equal(m, []int{1, 1}, []int{now, ever})
		other, leave := context.WithCancel(m.Context())
		defer leave()
		last := follow(other, m.ls, "k", newClaim(always), policy(nil))
		advance(time.Minute)
		m.cancel()
		m.ended(context.Canceled, m.results...)
		for _, c := range m.claims {
			require.Empty(m, c.at())
			require.Zero(m, c.heads)
		}
		require.Empty(m, last, "its context goes on")
		require.Equal(m, 2, m.ls.Waiting())
		leave()
		m.ended(context.Canceled, last)
	})
}

// Those of a crew have their turns, in order, and when the last of them has it there is
// nobody left to be told.
func TestCrewHasItsTurns(t *testing.T) {
	inMob(t, 20, func(m *mob) {
		for i := range 1 + len(m.results) {
			pl, ok := m.ls.PledgeHead("k")
			require.True(m, ok)
			require.True(m, pl.Keep(time.Hour, func() {}))
			if i > 0 {
				require.Equal(m, 1, m.claims[i-1].heads)
				require.NoError(m, (<-m.results[i-1]).err)
			}
			synctest.Wait()
		}
		now, ever := m.ctx.counts()
		require.Equal(m, []int{0, 1}, []int{now, ever})
		require.False(m, m.ls.Waits("k"))
	})
}

// Nobody joins a crew that has ended with its last, in a line that goes on.
func TestCrewEndsWithItsLast(t *testing.T) {
	inMob(t, 20, func(m *mob) {
		other, leave := context.WithCancel(m.Context())
		defer leave()
		head := follow(other, m.ls, "k", newClaim(always), policy(newHints()))
		for range 1 + len(m.results) {
			pl, ok := m.ls.PledgeHead("k")
			require.True(m, ok)
			require.True(m, pl.Keep(time.Hour, func() {}))
			synctest.Wait()
		}
		now, ever := m.ctx.counts()
		require.Equal(m, []int{0, 1}, []int{now, ever})
		var again []<-chan result
		for range 20 {
			again = append(again, follow(m.ctx, m.ls, "k", newClaim(always), policy(nil)))
		}
		now, ever = m.ctx.counts()
		require.Equal(m, []int{1, 2}, []int{now, ever})
		m.cancel()
		m.ended(context.Canceled, again...)
		leave()
		m.ended(context.Canceled, head)
	})
}

// One of a crew that is given the thing as its context ends has it, or knows of the
// pledge.
func TestCrewIsPledged(t *testing.T) {
	inMob(t, 20, func(m *mob) {
		for range 16 { // the first ones are in no crew
			pl, ok := m.ls.PledgeHead("k")
			require.True(m, ok)
			require.True(m, pl.Keep(time.Hour, func() {}))
		}
		pl, ok := m.ls.PledgeHead("k")
		require.True(m, ok)
		require.Same(m, m.claims[15], pl.Claim)
		m.cancel()
		kept := pl.Keep(0, func() {})
		require.Equal(m, kept, (<-m.results[15]).err == nil)
		m.ended(context.Canceled, m.results[16:]...)
	})
}

// A few form no crew: each looks after itself.
func TestFewAreNoCrew(t *testing.T) {
	inMob(t, 5, func(m *mob) {
		_, ever := m.ctx.counts()
		require.Zero(m, ever)
		m.cancel()
		m.ended(context.Canceled, m.results...)
	})
}

// Who comes after the end of a crew does not join it, though some are there yet.
func TestFollowAfterTheCrew(t *testing.T) {
	inMob(t, 20, func(m *mob) {
		places := make([]wait.Place, 2)
		for i := range places {
			require.True(m, m.ls.Follow(m.ctx, "k", newClaim(always), &places[i], false))
		}
		m.cancel()
		synctest.Wait()
		late := follow(m.ctx, m.ls, "k", newClaim(always), policy(nil))
		m.ended(context.Canceled, append(m.results, late)...)
		_, ever := m.ctx.counts()
		require.Equal(m, 1, ever)
		for i := range places {
			m.ls.Leave(&places[i])
		}
	})
}

// Whom no context can end is there all the same for its turn, and for the end of the
// lines.
func TestFollowersWithoutEnd(t *testing.T) {
	inMob(t, 0, func(m *mob) {
		var results []<-chan result
		for range 3 {
			results = append(results, follow(context.Background(), m.ls, "k", newClaim(always), policy(nil)))
		}
		for range 2 { // the head, and the first of them
			pl, ok := m.ls.PledgeHead("k")
			require.True(m, ok)
			require.True(m, pl.Keep(time.Hour, func() {}))
		}
		require.NoError(m, (<-results[0]).err)
		synctest.Wait()
		pl, ok := m.ls.PledgeHead("k")
		require.True(m, ok)
		m.ls.End()
		require.ErrorIs(m, (<-results[2]).err, errClosed)
		require.True(m, pl.Keep(0, func() {}), "the head goes on by itself")
		require.NoError(m, (<-results[1]).err)
	})
}
