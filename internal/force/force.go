// Package force takes an object from one of its holders, for the command and for the
// page.
package force

import (
	"context"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A Lock is a lock as those change it who know a holder of it.
type Lock interface {
	ForceUnlockHolder(ctx context.Context, holder string) (bool, error)
	ExtendHolder(ctx context.Context, holder string, lease time.Duration) (bool, error)
}

// LockOf returns the lock that a name stands for, or the half of it that a holder has; nil
// if it is no lock.
func LockOf(client *latchkey.Client, info *latchkey.Info, holder string) Lock {
	switch info.Kind {
	case latchkey.KindLock:
		return rlock.New(client, info.Name)
	case latchkey.KindFair:
		return fairlock.New(client, info.Name)
	case latchkey.KindReadWrite:
		if strings.HasSuffix(holder, ":write") {
			return rwlock.New(client, info.Name).WriteLock()
		}
		return rwlock.New(client, info.Name).ReadLock()
	}
	return nil
}

// Can reports whether an object of a kind can be taken from one holder.
func Can(kind latchkey.Kind) bool {
	switch kind {
	case latchkey.KindLock, latchkey.KindFair, latchkey.KindReadWrite, latchkey.KindPermitSemaphore:
		return true
	}
	return false
}

// Free takes an object of a kind that Can be taken away from one holder, and reports
// whether that had it. Any other holder keeps it.
func Free(ctx context.Context, client *latchkey.Client, info *latchkey.Info, holder string) (freed bool, err error) {
	if l := LockOf(client, info, holder); l != nil {
		return l.ForceUnlockHolder(ctx, holder)
	}
	if !Can(info.Kind) {
		return false, nil
	}
	n, err := permitsemaphore.New(client, info.Name).TryRelease(ctx, holder)
	return n > 0, err
}
