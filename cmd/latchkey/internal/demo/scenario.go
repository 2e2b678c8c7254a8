package demo

import (
	"context"
	"slices"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
)

// A scenario shows one thing. Its run function starts the workers, has a
// section of its own to see them overlap, and returns when they have ended.
type scenario struct {
	name string
	run  func(ctx context.Context, st *stage.Stage) error
}

// scenarios are played in this order; each primitive brings its own.
var scenarios = slices.Concat(rlockScenarios, fairlockScenarios, rwlockScenarios, semaphoreScenarios,
	permitsemaphoreScenarios, countdownlatchScenarios, multilockScenarios)
