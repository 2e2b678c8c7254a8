package main

import (
	"context"
	"os"
	"strings"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// The variables by which a run knows the runs that it is part of: the holder of
// the nearest, and those of the runs around that one, with spaces between them.
const (
	envHolder = "LATCHKEY_HOLDER"
	envOuter  = "LATCHKEY_OUTER"
)

// outerHolders are the holders of the runs that this one is part of. They end
// after this one, so what they hold cannot be waited for.
func outerHolders() []string {
	return strings.Fields(os.Getenv(envHolder) + " " + os.Getenv(envOuter))
}

// selfMade is the error of a job that can only be done when a run has ended that
// this one is part of, or nil. Redis says what those runs hold: the same name on
// another Redis is another lock. Without an answer the answer to take counts.
func (j *job) selfMade(ctx context.Context, client *latchkey.Client) error {
	outer := outerHolders()
	if len(outer) == 0 {
		return nil
	}
	info, err := client.Info(ctx, j.name)
	if err != nil || !j.blocked(info, outer) {
		return nil //nolint:nilerror // see above
	}
	if j.conflict == 0 && j.waits.bounded() {
		return &exit.Error{Code: 0}
	}
	return exit.Errorf(j.conflict, "a run that this one is part of has %s, and ends after this one", j.what())
}

// blocked reports whether what outer hold of a name leaves nothing for j.
func (j *job) blocked(info latchkey.Info, outer []string) bool {
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
	case j.permits > 0:
		return info.Count+int64(len(info.Holders)) <= int64(ours)
	case j.shared:
		return writes || info.Kind != latchkey.KindReadWrite
	}
	return true
}
