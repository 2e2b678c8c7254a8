package workload

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the library has told to be lost is believed in no longer: by the lease that it
// had, who is granted it next would be a second holder.
func TestNobodyBelievesInALoss(t *testing.T) {
	rec := &history.Recorder{}
	w := &worker{Party: &Party{rec: rec}, kind: "fairlock"}
	id := w.begin(history.Entry{Key: "orders", Op: history.Acquire})
	left := time.Minute
	held := &taken{ids: []int64{id}, left: func() time.Duration { return left }}
	until := func() int64 { return rec.All()[id].Until }

	now, still := w.believe(held)
	require.True(t, still)
	require.Equal(t, now+int64(time.Minute), until())

	left = 0
	now, still = w.believe(held)
	require.False(t, still)
	require.Equal(t, now, until())

	_, still = w.believe(held) // later
	require.False(t, still)
	require.Equal(t, now, until(), "of what has ended, the end stays")
}

// A holder's holds are lost together, and the fair lock's Unlock that finds it lets the
// next one in: nobody believes in the outer hold until he looks at it.
func TestNobodyBelievesInTheHoldAroundALoss(t *testing.T) {
	for what, left := range map[string]time.Duration{"lost": 0, "not lost": time.Minute} {
		rec := &history.Recorder{}
		w := &worker{Party: &Party{rec: rec}, kind: "fairlock"}
		outer := &taken{left: func() time.Duration { return time.Minute }}
		outer.ids = []int64{w.begin(history.Entry{Key: "orders", Op: history.Acquire})}
		w.believe(outer)
		outer.left = func() time.Duration { return left }

		var next int64 // when the next one was let in
		inner := &taken{keys: []string{"orders"}, outer: outer, left: func() time.Duration { return 0 }}
		inner.back = func(context.Context) error {
			next = history.Now()
			return latchkey.ErrLeaseLost
		}
		require.ErrorIs(t, w.give(inner, 1), latchkey.ErrLeaseLost)
		require.Equal(t, left == 0, rec.All()[outer.ids[0]].Until <= next, what)
	}
}
