package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
)

// waitFlags set how long to wait. Without any, the wait is unbounded.
type waitFlags struct {
	flags    *pflag.FlagSet
	nonblock bool
	wait     time.Duration
}

// register adds the flags. short is the shorthand of --nonblock, if it has one.
func (w *waitFlags) register(fs *pflag.FlagSet, short string) {
	w.flags = fs
	fs.BoolVarP(&w.nonblock, "nonblock", short, false, "do not wait")
	terminal.DurationVar(fs, &w.wait, "wait", "w", 0, "wait at most so long; 0.2 is seconds, and so is 200ms")
}

func (w *waitFlags) check() error {
	if w.nonblock && w.flags.Changed("wait") {
		return exit.Usagef("--nonblock and --wait exclude each other")
	}
	return nil
}

// bounded reports whether the wait is bounded.
func (w *waitFlags) bounded() bool { return w.nonblock || w.flags.Changed("wait") }

// option returns the option for a bounded wait.
func (w *waitFlags) option() []latchkey.LockOption {
	if w.flags.Changed("wait") {
		return []latchkey.LockOption{latchkey.Wait(w.wait)}
	}
	return nil
}

// An acquire is a method such as Lock or TryLock.
type acquire[T any] func(context.Context, ...latchkey.LockOption) (T, error)

// attempt acquires and waits as the flags say.
func attempt[T any](ctx context.Context, w *waitFlags, lock, try acquire[T], opts []latchkey.LockOption) (T, error) {
	if w.bounded() {
		return try(ctx, append(opts, w.option()...)...)
	}
	return lock(ctx, opts...)
}

// refusal returns who has the object if an acquire failed because another holder has
// it, or nil. If Redis did not answer, nobody knows.
func refusal(err error) *latchkey.TakenError {
	var taken *latchkey.TakenError
	errors.As(err, &taken)
	return taken
}
