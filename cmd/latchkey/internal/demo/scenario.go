package demo

import (
	"context"
	"slices"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
)

// A scenario shows one property. Its run function starts the workers, uses a
// section of its own to detect overlaps, and returns when the workers have
// ended.
type scenario struct {
	name string
	run  func(ctx context.Context, st *stage.Stage) error
}

// scenarios are run in this order. Each primitive has its own.
var scenarios = slices.Concat(rlockScenarios, fairlockScenarios, rwlockScenarios, semaphoreScenarios,
	permitsemaphoreScenarios, countdownlatchScenarios, multilockScenarios)
