package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
