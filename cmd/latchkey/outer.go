package main

import (
	"context"
	"os"
	"strings"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// The environment variables that tell a run the runs around it: the holder of
// the nearest, and those of the other runs, separated by spaces.
const (
	envHolder = "LATCHKEY_HOLDER"
	envOuter  = "LATCHKEY_OUTER"
)

// outerHolders returns the holders of the runs around this one. They end after
// this run, so it cannot wait for what they hold.
func outerHolders() []string {
	return strings.Fields(os.Getenv(envHolder) + " " + os.Getenv(envOuter))
}

// selfMade returns the error of a command that waits for what a run around it has
// under name, or nil. Redis is asked what those runs hold, because the same name on
// another Redis is another lock. If it does not answer, take reports that.
func (w *want) selfMade(ctx context.Context, client *latchkey.Client, name string) error {
	outer := outerHolders()
	if len(outer) == 0 {
		return nil
	}
	info, err := client.Info(ctx, name)
	if err != nil || !w.blocked(info, outer) {
		return nil //nolint:nilerror // see above
	}
	if w.conflict == 0 && w.waits.bounded() {
		return &exit.Error{Code: 0}
	}
	return exit.Errorf(w.conflict, "a run that this one is part of has %s, and ends after this one", w.what())
}

// blocked reports whether the outer runs hold so much of the object that
// nothing is left for w.
func (w *want) blocked(info latchkey.Info, outer []string) bool {
	ours, writes := 0, false
	for _, h := range info.Holders {
		for _, o := range outer {
			if h.ID == o {
				ours++
				writes = writes || h.Mode == "write"
			}
		}
	}
	switch {
	case ours == 0:
		return false
	case w.permits > 0:
		return info.Count+int64(len(info.Holders)) <= int64(ours)
	case w.shared:
		return writes || info.Kind != latchkey.KindReadWrite
	}
	return true
}
