package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// dozing is for how long a new head sleeps on.
const dozing = 20 * ms

// rousing are hints that come with a call of Rouse.
type rousing struct {
	*hints
	ls *wait.Lines
}

func (rousing) Rouses() bool { return true }

func (r rousing) message() {
	r.ls.Rouse("k")
	r.hint()
}

// A dozy is a line whose head has just been granted the thing, for so long, with a
// few behind it that have followed.
type dozy struct {
	*testing.T
	ls      *wait.Lines
	hints   rousing
	claims  []*header
	results []<-chan result
	cancels []context.CancelFunc
}

func inDoze(t *testing.T, after time.Duration, rouses bool, f func(d *dozy)) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		ls := wait.NewLines()
		d := &dozy{T: t, ls: ls, hints: rousing{newHints(), ls}}
		listening := func() *wait.Policy {
			p := policy(d.hints.hints)
			if rouses {
				p.Listen = func() wait.Hints { d.hints.open(); return d.hints }
			}
			return p
		}
		first := until(t.Context(), ls, "k", newClaim(refuse(2, wait.Answer{})), listening())
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &header{claim: newClaim(always)}
			d.claims, d.cancels = append(d.claims, c), append(d.cancels, cancel)
			d.results = append(d.results, follow(ctx, ls, "k", c, listening()))
		}
		d.hints.confirm()
		synctest.Wait() // the first has asked twice
		pl, ok := ls.PledgeHead("k")
		require.True(t, ok)
		require.True(t, pl.Keep(after, func() {}))
		require.NoError(t, (<-first).err)
		synctest.Wait()
		require.Equal(t, 1, d.claims[0].heads)
		f(d)
		for _, cancel := range d.cancels {
			cancel()
		}
		synctest.Wait()
		require.Zero(t, ls.Waiting())
		opened, closed := d.hints.counts()
		require.Equal(t, opened, closed, "hints left open")
	})
}

// listens reports whether the head takes the hints that there are.
func (d *dozy) listens() bool {
	d.hints.hint()
	synctest.Wait()
	return len(d.hints.c) == 0
}

func TestNewHeadSleepsOn(t *testing.T) {
	inDoze(t, 0, true, func(d *dozy) {
		advance(dozing - ms)
		require.False(d, d.listens())
		advance(ms)
		require.Len(d, d.claims[0].at(), 1, "it wakes, and finds the hint")
		require.True(d, d.listens())
	})
	inDoze(t, 0, false, func(d *dozy) {
		require.True(d, d.listens(), "nobody would rouse it")
	})
}

// A message is heard at once.
func TestRouse(t *testing.T) {
	inDoze(t, 0, true, func(d *dozy) {
		d.hints.message()
		synctest.Wait()
		require.Equal(d, []time.Duration{0}, d.claims[0].at())
		advance(time.Second)
		require.Len(d, d.claims[0].at(), 1, "it is not told again")
	})
}

// The lease ends when it does, however long the head has slept on.
func TestDozeDoesNotProlong(t *testing.T) {
	for _, after := range []time.Duration{dozing, 3 * dozing, time.Second} {
		inDoze(t, after, true, func(d *dozy) {
			advance(after + 2*ms)
			require.Equal(d, []time.Duration{after + 2*ms}, d.claims[0].at())
		})
	}
}

// One that sleeps on is given the thing, and so is the next one; each has a doze of
// its own.
func TestGivenInADoze(t *testing.T) {
	inDoze(t, 0, true, func(d *dozy) {
		for i := range 2 {
			advance(dozing - ms)
			pl, ok := d.ls.PledgeHead("k")
			require.True(d, ok)
			require.True(d, pl.Keep(0, func() {}))
			require.NoError(d, (<-d.results[i]).err)
		}
		require.Equal(d, 1, d.claims[2].heads)
		advance(dozing - ms)
		require.False(d, d.listens())
		advance(ms)
		require.True(d, d.listens())
		require.Empty(d, d.claims[0].at())
	})
}

// What ends a wait ends it in a doze.
func TestDozeEnds(t *testing.T) {
	inDoze(t, 0, true, func(d *dozy) {
		d.cancels[0]()
		got := <-d.results[0]
		require.ErrorIs(d, got.err, context.Canceled)
		require.Zero(d, got.at)
		synctest.Wait()
		require.Len(d, d.claims[1].at(), 1, "the next one asks, for a hint may have been used up")
		require.True(d, d.listens())
	})
	inDoze(t, 0, true, func(d *dozy) {
		d.ls.End()
		for _, r := range d.results {
			got := <-r
			require.ErrorIs(d, got.err, errClosed)
			require.Zero(d, got.at)
		}
	})
	inDoze(t, 0, true, func(d *dozy) {
		pl, ok := d.ls.PledgeHead("k")
		require.True(d, ok)
		pl.Doubt()
		synctest.Wait()
		require.Len(d, d.claims[0].at(), 1, "it asks what has come of it")
		advance(dozing)
		require.Len(d, d.claims[0].at(), 1)
	})
	inDoze(t, 0, true, func(d *dozy) {
		require.True(d, d.ls.Nudge("k"))
		synctest.Wait()
		require.Len(d, d.claims[0].at(), 1)
		advance(dozing)
		require.Len(d, d.claims[0].at(), 1)
	})
}
