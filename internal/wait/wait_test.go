package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

const ms = time.Millisecond

// within requires that got is want, or up to a quarter less: the jitter.
func within(t *testing.T, want, got time.Duration) {
	t.Helper()
	require.LessOrEqual(t, got, want)
	require.GreaterOrEqual(t, got, want*3/4)
}

func TestFreeCostsOneAsk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, c := wait.NewLines(), newHints(), newClaim(refuse(0, wait.Answer{}))
		p := policy(h)
		p.Events = told{slept: func() { t.Error("slept") }, missed: func() { t.Error("missed") }}
		require.NoError(t, ls.Until(t.Context(), "k", c, p))
		opened, closed := h.counts()
		require.Zero(t, opened+closed)
		require.Equal(t, []time.Duration{0}, c.at())
		require.Zero(t, ls.Waiting())
	})
}

func TestFailureOfTheClaimEndsTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, boom := wait.NewLines(), newHints(), errors.New("boom")
		c := newClaim(func(nth int) (wait.Answer, error) {
			if nth == 2 {
				return wait.Answer{}, boom
			}
			return wait.Answer{}, nil
		})
		done := until(t.Context(), ls, "k", c, policy(h))
		h.hint()
		require.Equal(t, boom, (<-done).err)
		opened, closed := h.counts()
		require.Equal(t, []int{1, 1}, []int{opened, closed})
	})
}

// Ask, listen, ask again once hints flow, and once for each hint.
func TestAskListenAsk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, c := wait.NewLines(), newHints(), newClaim(refuse(3, wait.Answer{}))
		p := policy(h)
		slept := 0
		p.Events = told{slept: func() { slept++ }, missed: func() { t.Error("missed") }}
		done := until(t.Context(), ls, "k", c, p)
		require.Len(t, c.at(), 1)
		require.Equal(t, 1, ls.Waiting())
		advance(100 * ms)
		h.confirm()
		advance(100 * ms)
		h.hint()
		advance(100 * ms)
		h.hint()
		require.Equal(t, result{nil, 300 * ms}, <-done)
		require.Equal(t, []time.Duration{0, 100 * ms, 200 * ms, 300 * ms}, c.at())
		opened, closed := h.counts()
		require.Equal(t, []int{1, 1, 1}, []int{opened, closed, slept})
		require.Zero(t, ls.Waiting())
	})
}

func TestRecheck(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, c := wait.NewLines(), newHints(), newClaim(refuse(4, wait.Answer{}))
		h.live = true
		p := policy(h)
		missed := 0
		p.Events = told{missed: func() { missed++ }}
		require.NoError(t, ls.Until(t.Context(), "k", c, p))
		at := c.at()
		require.Len(t, at, 5)
		for i := range 4 {
			within(t, recheck, at[i+1]-at[i])
		}
		require.Equal(t, 1, missed, "the last recheck found what a hint should have told")
	})
}

func TestUnconfirmedIsAskedMoreOften(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, c := wait.NewLines(), newHints(), newClaim(refuse(3, wait.Answer{}))
		p := policy(h)
		p.Events = told{missed: func() { t.Error("missed") }}
		require.NoError(t, ls.Until(t.Context(), "k", c, p))
		at := c.at()
		for i := range 3 {
			within(t, unconfirmed, at[i+1]-at[i])
		}
	})
}

// What is left of the lease bounds a sleep, and its end is nothing missed.
func TestAfterBoundsTheSleep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, c := wait.NewLines(), newHints(), newClaim(refuse(2, wait.Answer{After: 700 * ms}))
		h.live = true
		p := policy(h)
		p.Events = told{missed: func() { t.Error("missed") }}
		require.NoError(t, ls.Until(t.Context(), "k", c, p))
		require.Equal(t, []time.Duration{0, 702 * ms, 1404 * ms}, c.at(), "and 2 ms, so that the key is gone")

		c = newClaim(refuse(1, wait.Answer{After: time.Hour}))
		p.Events = nil
		require.NoError(t, ls.Until(t.Context(), "k", c, p))
		within(t, recheck, c.at()[1])
	})
}

// The end of a lease is nothing missed either if a recheck is due at about the same time.
func TestRecheckAtTheEndOfALease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const lease = recheck - 10*ms // rechecks are spread over a quarter of their time
		h := newHints()
		h.live = true
		p := policy(h)
		p.Events = told{missed: func() { t.Error("missed") }}
		for range 1000 {
			end := time.Now().Add(lease)
			c := newClaim(func(int) (wait.Answer, error) {
				left := time.Until(end)
				return wait.Answer{Granted: left <= 0, After: max(left, ms)}, nil
			})
			require.NoError(t, wait.NewLines().Until(t.Context(), "k", c, p))
		}
	})
}

// After a failure to ask, hints do not hasten the next ask.
func TestAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, c := wait.NewLines(), newHints(), newClaim(refuse(3, wait.Answer{Again: 50 * ms}))
		h.live = true
		p := policy(h)
		p.Events = told{missed: func() { t.Error("missed") }}
		done := until(t.Context(), ls, "k", c, p)
		for range 20 {
			h.hint()
			advance(5 * ms)
		}
		require.NoError(t, (<-done).err)
		require.Equal(t, []time.Duration{0, 50 * ms, 100 * ms, 150 * ms}, c.at())
	})
}

// A recheck found nothing, and the hint came after it.
func TestNothingMissed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHints()
		h.live = true
		p := policy(h)
		p.Events = told{missed: func() { t.Error("missed") }}
		c := newClaim(refuse(2, wait.Answer{}))
		done := until(t.Context(), wait.NewLines(), "k", c, p)
		advance(recheck)
		h.hint()
		require.NoError(t, (<-done).err)
		require.Len(t, c.at(), 3)
	})
}

// A recheck that got no answer is no recheck.
func TestAgainAfterARecheck(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHints()
		h.live = true
		c := newClaim(func(nth int) (wait.Answer, error) {
			return []wait.Answer{{}, {Again: ms}, {Granted: true}}[nth-1], nil
		})
		p := policy(h)
		p.Events = told{missed: func() { t.Error("missed") }}
		require.NoError(t, wait.NewLines().Until(t.Context(), "k", c, p))
	})
}

func TestPolling(t *testing.T) {
	dead := newHints()
	dead.dead = true
	for name, h := range map[string]*hints{"no hints": nil, "dead hints": dead} {
		t.Run(name, func(t *testing.T) {
			if h != nil {
				h.c = nil
			}
			inBubble(t, func(t *testing.T) {
				c := newClaim(refuse(7, wait.Answer{}))
				p := policy(h)
				p.Events = told{missed: func() { t.Error("missed") }}
				require.NoError(t, wait.NewLines().Until(t.Context(), "k", c, p))
				at := c.at()
				for i, want := range []time.Duration{8, 16, 32, 64, 64, 64, 64} {
					within(t, want*ms, at[i+1]-at[i])
				}
			})
		})
	}
}

// The end of a wait, whatever it is, shows at once: while asleep as the head,
// and while others are before one.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		want error
		end  func(p *wait.Policy, cancel func())
	}{
		"ctx":       {context.Canceled, func(_ *wait.Policy, cancel func()) { time.AfterFunc(123*ms, cancel) }},
		"over":      {wait.ErrOver, func(p *wait.Policy, _ func()) { p.Over = time.After(123 * ms) }},
		"interrupt": {wait.ErrInterrupted, func(p *wait.Policy, _ func()) { p.Interrupt = endsIn(123 * ms) }},
		"closed":    {errClosed, func(p *wait.Policy, _ func()) { p.Closed = endsIn(123 * ms) }},
	} {
		for _, stage := range []string{"unconfirmed", "live", "dead", "again", "in line", "granted to the one before"} {
			t.Run(name+"/"+stage, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					ls, h := wait.NewLines(), newHints()
					ans := wait.Answer{}
					switch stage {
					case "live":
						h.live = true
					case "dead":
						h.dead = true
					case "again":
						ans.Again = time.Second
					}
					first, stop := context.WithCancel(t.Context())
					defer stop()
					asks := 1
					var before <-chan result
					if stage == "in line" || stage == "granted to the one before" {
						asks = 0
						nth := 0
						before = until(first, ls, "k", newClaim(func(int) (wait.Answer, error) {
							nth++
							return wait.Answer{Granted: nth > 1, After: time.Hour}, nil
						}), policy(h))
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					p := policy(h)
					c.end(p, cancel)
					cl := newClaim(func(int) (wait.Answer, error) { return ans, nil })
					done := until(ctx, ls, "k", cl, p)
					if stage == "granted to the one before" {
						h.confirm()
						require.NoError(t, (<-before).err)
					}
					require.Equal(t, result{c.want, 123 * ms}, <-done)
					if stage != "dead" {
						require.Len(t, cl.at(), asks)
					}
					stop()
					synctest.Wait()
					require.Zero(t, ls.Waiting())
					opened, closed := h.counts()
					require.Equal(t, opened, closed, "the last one turns off the light")
				})
			})
		}
	}
}

func endsIn(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}
