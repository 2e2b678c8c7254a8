package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// A Kind is what a name stands for in Redis, as far as its key tells.
type Kind string

// The kinds that Info tells apart.
const (
	KindFree      Kind = engine.KindFree      // there is no such key
	KindLock      Kind = engine.KindLock      // reentrant, fenced, spin or fair
	KindReadWrite Kind = engine.KindReadWrite // read-write lock
)

// Info is what Redis shows of a lock at one moment. It may be history by the
// time it is read: decide nothing by it but what to tell people.
type Info struct {
	Name    string
	Kind    Kind
	Holders []HolderInfo
	// Lease is how long the lock stays held if nobody renews it; 0 when free,
	// -1 when the key has no expiry.
	Lease time.Duration
	// Token is the last fencing token given, 0 for none.
	Token int64
}

// HolderInfo is one holder of a lock.
type HolderInfo struct {
	ID    string // "<client id>:<number>", and ":write" behind it for a writer
	Label string // what the option Label said; empty for Java's
	Count int    // hold count
}

// Info tells who holds the lock of that name. It is no error that nobody does.
// A key of another kind is ErrKeyConflict.
//
// It costs one round trip, and a second one when the lock is held. The script
// is as long as the lock has holders.
func (c *Client) Info(ctx context.Context, name string) (Info, error) {
	info := Info{Name: name}
	got, err := engine.Of(c).Inspect(ctx, name)
	if err != nil {
		return info, err
	}
	info.Kind, info.Lease, info.Token = Kind(got.Kind), got.Left, got.Token
	for _, h := range got.Holders {
		info.Holders = append(info.Holders, HolderInfo(h))
	}
	return info, nil
}
