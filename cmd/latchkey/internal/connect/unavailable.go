package connect

import (
	"errors"
	"strings"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/text"
)

// Unavailable returns the error for a command that failed because of Redis.
func Unavailable(addr string, err error) error {
	var e *latchkey.Error
	if errors.As(err, &e) {
		err = e.Err // the rest is for Go programs
	}
	why := strings.TrimPrefix(plainly(err).Error(), latchkey.ErrNotAcquired.Error()+": ") // who knows who has it
	// The second text is the reply of Redis to a long command of an
	// unauthenticated client.
	switch {
	case strings.Contains(why, "NOAUTH"), strings.Contains(why, "unauthenticated"):
		why = "it wants a password (-a, " + envAuth + " or in the URL)"
	case strings.HasPrefix(why, "MOVED "), strings.HasPrefix(why, "ASK "):
		why = "it is a node of a Redis Cluster (--cluster): " + why
	case strings.Contains(why, "unknown command"):
		why = "it lacks a command; if it is a Sentinel, name the master (--sentinel-master): " + why
	}
	return exit.Errorf(exit.Unavailable, "Redis at %s: %s", addr, text.Harmless(why))
}
