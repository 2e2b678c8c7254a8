package campaign_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/chaos/campaign"
	"github.com/latchkey-go/latchkey/chaos/nemesis"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/chaos/workload"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	workload.Child()
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}

// TestRounds is a campaign of a few rounds: one fault of each sort. `make check` and
// `make prove` run the others.
func TestRounds(t *testing.T) {
	faults := nemesis.For(stage.Single, "lost-replies", "kill-empty", "client-killed", "clock-leap", "clock-leap-back", "client-clock")
	r := campaign.New(campaign.Config{Topology: stage.Single, Seed: 7, Kinds: workload.Kinds, Log: t.Logf, Faults: faults})
	r.Run(t.Context(), t)
	t.Logf("%d objects' histories explained, %d writes offered, %d refused, served %v", r.Verdict.Explained, r.Offered, r.Refused, r.Served)
	require.Empty(t, r.Failures)
	require.Len(t, faults, r.Rounds)
	require.NotZero(t, r.Verdict.Explained)
	require.NotZero(t, r.Offered)
	require.NotZero(t, r.Refused, "nobody who had stopped for longer than a lease has written")
	for name, f := range r.Faults {
		require.NotZero(t, f.Proof, name)
	}
	for _, kind := range workload.Kinds {
		require.NotZero(t, r.Served[kind], kind)
	}
}

// TestVacuous: a round fails whose fault did not happen, or left nobody served
// although it says so.
func TestVacuous(t *testing.T) {
	frozen := nemesis.For(stage.Single, "freeze-short")[0]
	frozen.Live = true
	for want, f := range map[string]nemesis.Fault{
		"nothing proves":        {Name: "nothing", Do: func(*nemesis.Play) {}, Span: time.Millisecond},
		"acquisitions during a": frozen,
	} {
		r := campaign.New(campaign.Config{
			Topology: stage.Single, Seed: 7, Kinds: []string{"rlock"}, Faults: []nemesis.Fault{f},
		})
		r.Run(t.Context(), t)
		require.Len(t, r.Failures, 1, "%s: %v", f.Name, r.Failures)
		require.Contains(t, r.Failures[0], want)
		require.Contains(t, r.Failures[0], "-seed 7 -round 1", "how to repeat it")
	}
}
