package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A header is a claim that hears of it when it comes to the head of its line.
type header struct {
	*claim
	heads int // how often
}

func (h *header) Heads() { h.heads++ }

// A following is a line whose head is always refused, with one behind it that has
// followed.
type following struct {
	*testing.T
	ls      *wait.Lines
	hints   *hints
	head    *claim
	stop    context.CancelFunc // of the head
	first   <-chan result
	claim   *header
	cancel  context.CancelFunc
	policy  *wait.Policy
	follows <-chan result
}

// inFollowing runs f, which says by set how the one that follows waits.
func inFollowing(t *testing.T, set func(p *wait.Policy), f func(f *following)) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		f1 := &following{T: t, ls: wait.NewLines(), hints: newHints(), head: newClaim(always), claim: &header{claim: newClaim(always)}}
		require.False(t, f1.ls.Follow("k", f1.claim, new(wait.Place)), "there is nobody to follow")
		require.Zero(t, f1.ls.Waiting())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		f1.stop = stop
		f1.first = until(ctx, f1.ls, "k", f1.head, policy(f1.hints))
		f1.hints.confirm()
		synctest.Wait()
		ctx, f1.cancel = context.WithCancel(t.Context())
		defer f1.cancel()
		f1.policy = policy(f1.hints)
		if set != nil {
			set(f1.policy)
		}
		f1.follows = follow(ctx, f1.ls, "k", f1.claim, f1.policy)
		require.Equal(t, 2, f1.ls.Waiting())
		require.Zero(t, f1.claim.heads)
		f(f1)
		f1.stop()
		f1.cancel()
		synctest.Wait()
		require.Zero(t, f1.ls.Waiting())
		opened, closed := f1.hints.counts()
		require.Equal(t, opened, closed, "hints left open")
	})
}

// A follower asks nothing until it is the head, and then as anybody else would.
func TestFollow(t *testing.T) {
	inFollowing(t, nil, func(f *following) {
		advance(time.Minute)
		require.Zero(f, f.claim.heads)
		f.stop()
		require.ErrorIs(f, (<-f.first).err, context.Canceled)
		synctest.Wait()
		require.Equal(f, 1, f.claim.heads)
		require.Equal(f, []time.Duration{time.Minute}, f.claim.at(), "the one before it has given up, so it asks")
		pl, ok := f.ls.ReserveHead("k")
		require.True(f, ok)
		require.Same(f, f.claim, pl.Claim)
		require.True(f, pl.Commit(0, func() {}))
		require.NoError(f, (<-f.follows).err)
	})
}

// It is there to be given the thing as soon as it is the head, before it has woken.
func TestFollowerHasAReservation(t *testing.T) {
	inFollowing(t, nil, func(f *following) {
		for range 2 { // to the one before it, and to it
			pl, ok := f.ls.ReserveHead("k")
			require.True(f, ok)
			require.True(f, pl.Commit(time.Hour, func() {}))
		}
		require.Equal(f, 1, f.claim.heads)
		require.NoError(f, (<-f.first).err)
		require.NoError(f, (<-f.follows).err)
		require.Empty(f, f.claim.at(), "nothing was asked")
	})
}

// What ends the wait of one that follows ends it at once, and nothing is lost when
// it was given the thing at the same time.
func TestFollowerGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		want error
		end  func(f *following)
	}{
		"ctx":  {context.Canceled, func(f *following) { f.cancel() }},
		"over": {wait.ErrOver, func(*following) { time.Sleep(time.Second) }},
		"end":  {errClosed, func(f *following) { f.ls.End() }},
	} {
		set := func(p *wait.Policy) {
			if name == "over" {
				p.Over = time.NewTimer(time.Second).C
			}
		}
		t.Run(name, func(t *testing.T) {
			inFollowing(t, set, func(f *following) {
				c.end(f)
				synctest.Wait()
				require.ErrorIs(f, (<-f.follows).err, c.want)
				require.False(f, f.policy.Reserved)
				require.Zero(f, f.claim.heads)
				require.Equal(f, 1, f.ls.Waiting(), "the head goes on")
			})
		})
		t.Run(name+"/given", func(t *testing.T) {
			inFollowing(t, set, func(f *following) {
				f.stop()
				require.ErrorIs(f, (<-f.first).err, context.Canceled)
				synctest.Wait()
				pl, ok := f.ls.ReserveHead("k")
				require.True(f, ok)
				c.end(f)
				kept := pl.Commit(0, func() {})
				err := (<-f.follows).err
				require.Equal(f, kept, err == nil)
				require.Equal(f, !kept, f.policy.Reserved, "one of the two knows of it")
			})
		})
	}
}

// A caller that comes after the end follows nobody, though others are there yet. One that comes to
// be the head after it does not ask.
func TestFollowAfterTheEnd(t *testing.T) {
	inFollowing(t, nil, func(f *following) {
		h := &header{claim: newClaim(always)}
		p := policy(f.hints)
		p.Place = new(wait.Place)
		require.True(f, f.ls.Follow("k", h, p.Place))
		f.ls.End()
		require.False(f, f.ls.Follow("k", h, new(wait.Place)))
		require.ErrorIs(f, (<-f.follows).err, errClosed)
		f.stop()
		require.ErrorIs(f, (<-f.first).err, context.Canceled)
		require.Equal(f, 1, h.heads)
		p.Heard = p.Place.Await(f.Context(), nil).Heard
		require.ErrorIs(f, f.ls.Until(f.Context(), "k", h, p), errClosed)
		require.Empty(f, h.at())
	})
}

// A waiter that does not follow knows of the end by Policy.Closed, or does without it.
func TestEndIsForFollowers(t *testing.T) {
	inFollowing(t, nil, func(f *following) {
		c := newClaim(always)
		p := policy(f.hints)
		p.Closed, p.ClosedErr = nil, nil
		ctx, cancel := context.WithCancel(f.Context())
		defer cancel()
		last := until(ctx, f.ls, "k", c, p)
		synctest.Wait()
		f.ls.End()
		require.ErrorIs(f, (<-f.follows).err, errClosed)
		f.stop()
		require.ErrorIs(f, (<-f.first).err, context.Canceled)
		synctest.Wait()
		require.Empty(f, last)
		require.NotEmpty(f, c.at(), "it is the head now")
		cancel()
		require.ErrorIs(f, (<-last).err, context.Canceled)
	})
}

// Leave is for one who will not go on.
func TestFollowerLeaves(t *testing.T) {
	inFollowing(t, nil, func(f *following) {
		h := &header{claim: newClaim(always)}
		pl := new(wait.Place)
		require.True(f, f.ls.Follow("k", h, pl))
		require.Equal(f, 3, f.ls.Waiting())
		f.ls.Leave(pl)
		require.Equal(f, 2, f.ls.Waiting())
		f.stop()
		f.cancel()
		synctest.Wait()
		require.Zero(f, f.ls.Waiting())
		require.Zero(f, h.heads)
		require.False(f, f.ls.Waits("k"))
	})
}
