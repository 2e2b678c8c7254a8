package wait_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A fakeQueue is a queue in Redis as a client sees it: it gives out tickets, and grants to the
// holder who is named.
type fakeQueue struct {
	mu     sync.Mutex
	ticket int64
	places map[string]bool
	turn   string // who would be granted
	asked  []string
	kept   [][]string
	strays []string
}

func (f *fakeQueue) claim(id string) wait.Claim { return fakeClaim{f, id} }

type fakeClaim struct {
	*fakeQueue
	id string
}

func (c fakeClaim) Try(context.Context) (wait.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, c.id)
	if c.turn == c.id {
		c.turn = ""
		delete(c.places, c.id)
		return wait.Answer{Granted: true, After: time.Hour}, nil
	}
	ans := wait.Answer{After: time.Hour, Next: c.turn}
	if !c.places[c.id] {
		c.places[c.id] = true
		c.ticket++
		ans.Ticket = c.ticket
	}
	return ans, nil
}

func (f *fakeQueue) free(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn = id
}

func (f *fakeQueue) asks() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.asked
	f.asked = nil
	return a
}

// wait waits in the queue on a goroutine.
func (f *fakeQueue) wait(ctx context.Context, ls *wait.Lines, id string, h, own *hints) <-chan result {
	q := &wait.Queue{
		Policy: *policy(h), ID: id, ListenOwn: own.open,
		Keep: func(_ context.Context, ids []string) (lost []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.kept = append(f.kept, ids)
			for _, id := range ids {
				if !f.places[id] {
					lost = append(lost, id)
				}
			}
			return lost
		},
		Stray: func(id string) {
			f.mu.Lock()
			f.strays = append(f.strays, id)
			f.mu.Unlock()
		},
	}
	start := time.Now()
	out := make(chan result, 1)
	go func() {
		err := ls.UntilTurn(ctx, "key", f.claim(id), q)
		out <- result{err, time.Since(start)}
	}()
	synctest.Wait()
	return out
}

// Everybody asks once; after that the first alone listens, and asks for all.
func TestTurnOnlyTheFirstAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		var got []<-chan result
		for _, id := range []string{"a", "b", "c"} {
			got = append(got, f.wait(t.Context(), ls, id, h, own))
		}
		require.Equal(t, []string{"a", "b", "c"}, f.asks())
		require.Equal(t, 3, ls.Waiting())
		h.confirm()
		advance(0)
		require.Equal(t, []string{"a"}, f.asks(), "once the hints flow")
		advance(recheck - time.Millisecond)
		require.Empty(t, f.asks())
		advance(time.Millisecond)
		require.Equal(t, []string{"a"}, f.asks())
		require.Equal(t, [][]string{{"a", "b", "c"}}, f.kept)
		opened, _ := own.counts()
		require.Equal(t, 1, opened, "only the first listens by itself")

		f.free("a")
		h.hint()
		advance(0)
		require.NoError(t, (<-got[0]).err)
		require.Equal(t, []string{"a"}, f.asks(), "the next one need not ask")
		f.free("b")
		require.True(t, ls.Tell("key", "b"))
		advance(0)
		require.NoError(t, (<-got[1]).err)
		require.Equal(t, []string{"b"}, f.asks())
		f.free("c")
		h.hint()
		advance(0)
		require.NoError(t, (<-got[2]).err)
		require.False(t, ls.Tell("key", "c"))
		_, closed := h.counts()
		require.Equal(t, 1, closed)
		require.Zero(t, ls.Waiting())
	})
}

// One who asks and hears that it is another's turn tells that one; who is not here
// is reported.
func TestTurnIsPassedOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		a := f.wait(t.Context(), ls, "a", h, own)
		b := f.wait(t.Context(), ls, "b", h, own)
		h.confirm()
		advance(0)
		f.free("b") // Redis has another order
		h.hint()
		advance(0)
		require.NoError(t, (<-b).err)
		f.free("ghost")
		h.hint()
		advance(0)
		require.Equal(t, []string{"ghost"}, f.strays)
		f.free("a")
		h.hint()
		advance(0)
		require.NoError(t, (<-a).err)
	})
}

// One whose place is gone asks for another, and stands behind the others then.
func TestTurnLostPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		for _, id := range []string{"a", "b", "c"} {
			f.wait(ctx, ls, id, h, own)
		}
		h.confirm()
		advance(0)
		f.asks()
		f.mu.Lock()
		delete(f.places, "b")
		f.mu.Unlock()
		advance(recheck)
		require.Equal(t, []string{"a", "b"}, f.asks())
		f.mu.Lock()
		delete(f.places, "a")
		f.kept = nil
		f.mu.Unlock()
		advance(2 * recheck)
		require.Equal(t, []string{"c", "b", "a"}, f.kept[len(f.kept)-1])
		cancel()
		advance(0)
		require.Zero(t, ls.Waiting())
	})
}

// Where Redis tells nobody, the first polls for all.
func TestTurnWithoutHints(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		h.dead = true
		h.hint()
		f := &fakeQueue{places: map[string]bool{}}
		f.wait(t.Context(), ls, "a", h, own)
		b := f.wait(t.Context(), ls, "b", h, own)
		f.asks()
		advance(time.Second)
		asks := f.asks()
		require.NotContains(t, asks, "b")
		require.Greater(t, len(asks), 10)
		require.Less(t, len(asks), 30)
		f.free("b")
		require.NoError(t, (<-b).err)
		f.free("a")
		advance(time.Second)
		require.Zero(t, ls.Waiting())
	})
}

// Of many waiters all are kept, a part at a time, and the first ones always.
func TestTurnKeepsAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		const n = 700
		for i := range n {
			f.wait(ctx, ls, fmt.Sprint(i), h, own)
		}
		h.confirm()
		advance(7 * recheck)
		seen := map[string]int{}
		for _, ids := range f.kept {
			require.Equal(t, "0", ids[0])
			require.LessOrEqual(t, len(ids), n/4)
			for _, id := range ids {
				seen[id]++
			}
		}
		require.Len(t, seen, n)
		cancel()
		advance(0)
		require.Zero(t, ls.Waiting())
	})
}

// What is reserved to the first comes to it without its asking, or it hears nothing
// of it, or it asks when nobody knows; and one who has gone says so.
func TestReservation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		_, ok := ls.ReserveFirst("key")
		require.False(t, ok)
		ctx, cancel := context.WithCancel(t.Context())
		a, b := f.wait(ctx, ls, "a", h, own), f.wait(t.Context(), ls, "b", h, own)
		h.confirm()
		advance(0)
		f.asks()
		p, ok := ls.ReserveFirst("key")
		require.True(t, ok)
		require.Equal(t, f.claim("a"), p.Claim)
		_, ok = ls.ReserveFirst("key")
		require.False(t, ok, "there is one already")
		p.Cancel()
		p, _ = ls.ReserveFirst("key")
		p.Unknown()
		advance(0)
		require.Equal(t, []string{"a"}, f.asks())
		p.Cancel()
		p, _ = ls.ReserveFirst("key")
		known := false
		p.Commit(0, func() {
			cancel() // in the same moment
			synctest.Wait()
			known = true
		})
		require.NoError(t, (<-a).err, "it has it")
		require.True(t, known)
		require.Empty(t, f.asks())

		ctx, cancel = context.WithCancel(t.Context())
		c := f.wait(ctx, ls, "c", h, own)
		f.free("b")
		ls.Tell("key", "b")
		require.NoError(t, (<-b).err)
		p, ok = ls.ReserveFirst("key")
		require.True(t, ok)
		cancel()
		require.ErrorIs(t, (<-c).err, context.Canceled)
		p.Commit(0, func() { t.Error("it has gone") })
		require.Zero(t, ls.Waiting())
	})
}

// In a queue too, the end of a lease is nothing missed if a recheck is due just before it.
func TestTurnAtTheEndOfALease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for d := -4 * ms; d <= 4*ms; d += ms / 2 {
			h, own := newHints(), newHints()
			h.live, own.live = true, true
			end := time.Now().Add(recheck + d)
			q := &wait.Queue{Policy: *policy(h), ID: "a", ListenOwn: own.open, Keep: func(context.Context, []string) []string { return nil }}
			q.Events = told{missed: func() { t.Errorf("missed, of a lease that ends %v after the recheck", d) }}
			h.hint()
			c := newClaim(func(nth int) (wait.Answer, error) {
				left := time.Until(end)
				return wait.Answer{Granted: left <= 0, After: max(left, ms), Ticket: int64(nth & 1)}, nil
			})
			require.NoError(t, wait.NewLines().UntilTurn(t.Context(), "k", c, q))
		}
	})
}

// The next one after a waiter that was given the thing asks when the lease given has ended.
func TestNextAsksAtTheEndOfWhatIsGiven(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const lease = recheck / 5
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		a, b := f.wait(ctx, ls, "a", h, own), f.wait(ctx, ls, "b", h, own)
		h.confirm()
		advance(recheck / 10)
		f.asks()
		p, ok := ls.ReserveFirst("key")
		require.True(t, ok)
		require.True(t, p.Commit(lease, func() {}))
		require.NoError(t, (<-a).err)
		advance(lease - time.Millisecond)
		require.Empty(t, f.asks(), "somebody has it")
		advance(10 * time.Millisecond)
		require.Equal(t, []string{"b"}, f.asks())
		cancel()
		require.ErrorIs(t, (<-b).err, context.Canceled)
	})
}

// Two calls under one ID are told together, and one may go.
func TestTurnTwins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h, own := wait.NewLines(), newHints(), newHints()
		f := &fakeQueue{places: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		one := f.wait(ctx, ls, "a", h, own)
		two := f.wait(t.Context(), ls, "a", h, own)
		third := f.wait(ctx, ls, "a", h, own)
		cancel()
		require.Error(t, (<-one).err)
		require.Error(t, (<-third).err)
		require.True(t, ls.InGroup("key", "a"))
		f.asks()
		f.free("a")
		require.True(t, ls.Tell("key", "a"))
		require.NoError(t, (<-two).err)
		require.False(t, ls.InGroup("key", "a"))
		require.Equal(t, []string{"a"}, slices.Compact(f.asks()))
	})
}
