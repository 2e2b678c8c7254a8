package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// Without an Observer nothing is allocated on its account; with one, neither.
func TestHooksAllocateNothing(t *testing.T) {
	for name, hooks := range map[string]Hooks{
		"absent": {},
		"present": {
			WaitStarted: func(context.Context, string, string) {},
			Acquired:    func(context.Context, Acquisition) {},
			Failed:      func(context.Context, Acquisition, error) {},
			Released:    func(string, string, time.Duration) {},
			Lost:        func(string, string, time.Duration, LossReason) {},
			Undone:      func(string, string) {},
			Missed:      func(string, string) {},
		},
	} {
		e := &Engine{Runner: run.New(nil, run.Config{}), watchdog: watchdog.New(nil, nil, nil)}
		e.cfg.Hooks = hooks
		s := &Spec{Kind: "rlock", Name: "a", engine: e}
		c := newAttempt(t.Context(), s, &LockConfig{})
		g := &Hold{holding: new(holding), spec: s, cfg: &LockConfig{}, since: time.Now()}
		allocs := testing.AllocsPerRun(100, func() {
			c.contended = false
			c.waits()
			c.missed()
			c.report(1, nil)
			c.report(1, ErrNotAcquired)
			c.acquired(g)
			e.released(g)
			e.lost(g, LossTaken)
			e.tookBackOne(s)
			e.cfg.Hooks.resubscribed(1)
		})
		require.Zero(t, allocs, name)
	}
}

// One wait is one WaitStarted, also where the caller goes back to the end of the
// line, because its holder came to have the lock and has lost it again.
func TestOneWaitStartsOnce(t *testing.T) {
	e, n := &Engine{Runner: run.New(nil, run.Config{})}, 0
	e.cfg.Hooks.WaitStarted = func(context.Context, string, string) { n++ }
	c := newAttempt(t.Context(), &Spec{engine: e}, &LockConfig{})
	c.waits()
	c.waits()
	require.Equal(t, 1, n)
}

// Nor does a label cost anything where there is none.
func TestNoLabelAllocatesNothing(t *testing.T) {
	c := &lockAttempt{attempt: attempt{cfg: &plain}}
	c.begins(&holding{holds: make([]*Hold, 0)})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if c.label(0) != "" || c.label(1) != "" {
			t.Error("a label")
		}
	}))
}
