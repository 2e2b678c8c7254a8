package upgrade

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed testdata/39b1f23
var files embed.FS

// script returns a script of the earlier commit.
func script(name string) *redis.Script {
	b, err := files.ReadFile("testdata/39b1f23/" + strings.ReplaceAll(name, "/", "_") + ".lua")
	if err != nil {
		panic(err)
	}
	return redis.NewScript(string(b))
}

// The constants of a client of the earlier commit.
const (
	oldLease   = 30_000 // ms
	oldBound   = 5_000  // ms in which a request reaches Redis
	oldAhead   = 6_000
	oldKept    = 15_000 // ms for which a waitlist is kept
	oldTimeout = 300_000
	oldAlive   = 15_000
	oldKeep    = 86_400_000
	oldBack    = 500 // ms for which readers stand back
)

// An oldClient is a client of the earlier commit with one caller. It acquires
// and releases by that commit's scripts, with KEYS and ARGV as its script.go
// had them, and understands its messages. It renews nothing.
type oldClient struct {
	rdb    *redis.Client
	id     string
	number int
	proof  string

	given atomic.Int64 // how often it was given a lock
}

// fresh returns a new holder.
func (c *oldClient) fresh() string {
	c.number++
	return c.id + ":" + strconv.Itoa(c.number)
}

// notAfter returns the deadline of a request that is sent now.
func notAfter() int64 { return time.Now().UnixMilli() + oldBound }

// heard is a message that a client has received, with its channel.
type heard = redis.Message

// listen subscribes, and returns when Redis has confirmed that.
func (c *oldClient) listen(ctx context.Context, channels ...string) (*redis.PubSub, <-chan *heard, error) {
	sub := c.rdb.Subscribe(ctx, channels...)
	for range channels {
		if _, err := sub.Receive(ctx); err != nil {
			return nil, nil, errors.Join(err, sub.Close())
		}
	}
	return sub, sub.Channel(), nil
}

// ints returns the integers of a reply; an integer reply is returned as one
// element.
func ints(reply any) (list []int64) {
	switch reply := reply.(type) {
	case int64:
		return []int64{reply}
	case []any:
		for _, x := range reply {
			if n, ok := x.(int64); ok {
				list = append(list, n)
			}
		}
	}
	return list
}

// granted reports whether an acquire script has granted: it replied with the
// server's time alone, or with 1 as the first element.
func granted(reply any, err error) (bool, error) {
	switch n := ints(reply); {
	case err != nil:
		return false, err
	case len(n) == 1 && n[0] > 0, len(n) > 1 && n[0] == 1:
		return true, nil
	case len(n) > 1 && n[0] == 0:
		return false, nil
	}
	return false, fmt.Errorf("an acquire script answered %v", reply)
}

// released returns an error unless a release script has freed the lock.
func released(reply any, err error) error {
	if n := ints(reply); err == nil && (len(n) == 0 || n[0] < 1 || len(n) > 1 && n[0] == 2) {
		err = fmt.Errorf("a release script answered %v", reply)
	}
	return err
}

// wait calls ask until it is granted: after each message and, as a last resort,
// when a lease would be over. gift handles a message that may grant the lock.
func wait(ctx context.Context, messages <-chan *heard, ask func() (bool, error), gift func(m *heard) bool) error {
	for {
		if got, err := ask(); got || err != nil {
			return err
		}
		select {
		case m := <-messages:
			if gift(m) {
				return nil
			}
		case <-time.After(oldLease * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// An oldLock is the reentrant lock of the earlier commit.
type oldLock struct {
	*oldClient
	key    string
	holder string
}

var (
	oldAcquire = script("rlock/acquire")
	oldRelease = script("rlock/release")
)

func (l *oldLock) channel() string { return "redisson_lock__channel:{" + l.key + "}" }
func (l *oldLock) list() string    { return "latchkey_next:{" + l.key + "}" }

func (l *oldLock) lock(ctx context.Context) error {
	holder := l.fresh()
	l.holder = holder
	got, err := granted(oldAcquire.Run(ctx, l.rdb, []string{l.key}, holder, 1, oldLease, notAfter(), oldAhead).Result())
	if got || err != nil {
		return err
	}
	own := l.channel() + ":" + l.id
	sub, messages, err := l.listen(ctx, own, l.channel())
	if err != nil {
		return err
	}
	defer sub.Close()
	number := strconv.Itoa(l.number)
	word := "w-" + hex.EncodeToString([]byte(holder))
	entry := l.id + " " + number + " " + strconv.Itoa(oldLease) + " " + word
	return wait(ctx, messages, func() (bool, error) {
		return granted(oldAcquire.Run(ctx, l.rdb, []string{l.key, l.list()},
			holder, 1, oldLease, notAfter(), oldAhead, 0, "", entry, "", oldKept).Result())
	}, func(m *heard) bool {
		if m.Channel != own || !strings.HasPrefix(m.Payload, "+"+number+" ") || !strings.HasSuffix(m.Payload, " "+word) {
			return false
		}
		l.given.Add(1)
		return true
	})
}

func (l *oldLock) unlock(ctx context.Context) error {
	return released(oldRelease.Run(ctx, l.rdb, []string{l.key, l.list()},
		l.holder, 0, 0, 0, l.channel(), "PUBLISH", 0, "", 0, 0, "", 0, oldKept).Result())
}

// An oldFair is the fair lock of the earlier commit.
type oldFair struct {
	*oldClient
	key    string
	holder string
}

var (
	oldFairAcquire = script("fairlock/acquire")
	oldFairRelease = script("fairlock/release")
)

func (l *oldFair) channel() string { return "redisson_lock__channel:{" + l.key + "}" }

func (l *oldFair) keys() []string {
	return []string{l.key, "redisson_lock_queue:{" + l.key + "}", "redisson_lock_timeout:{" + l.key + "}", "latchkey_queue:{" + l.key + "}"}
}

func (l *oldFair) lock(ctx context.Context) error {
	l.holder = l.fresh()
	own := l.channel() + ":" + l.id
	sub, messages, err := l.listen(ctx, own)
	if err != nil {
		return err
	}
	defer sub.Close()
	return wait(ctx, messages, func() (bool, error) {
		return granted(oldFairAcquire.Run(ctx, l.rdb, l.keys(), l.holder, 1, oldLease, notAfter(), oldAhead,
			oldTimeout, oldTimeout, l.id, oldAlive, l.channel(), "PUBLISH", oldKeep, "", l.proof).Result())
	}, func(m *heard) bool {
		text, isGift := strings.CutPrefix(m.Payload, "+"+strconv.Itoa(l.number)+" ")
		if !isGift {
			return false
		}
		end := strings.LastIndexByte(text, ' ') + 1
		sum := sha1.Sum([]byte(l.key + " " + strconv.Itoa(l.number) + " " + text[:end] + l.proof))
		if text[end:] != hex.EncodeToString(sum[:]) {
			return false
		}
		l.given.Add(1)
		return true
	})
}

func (l *oldFair) unlock(ctx context.Context) error {
	return released(oldFairRelease.Run(ctx, l.rdb, l.keys(),
		l.holder, 0, 0, 0, oldTimeout, l.id, l.channel(), "PUBLISH").Result())
}

// An oldHalf is a half of the read-write lock of the earlier commit.
type oldHalf struct {
	*oldClient
	key    string
	write  bool
	holder string
}

var (
	oldReadAcquire  = script("rwlock/acquire_read")
	oldReadRelease  = script("rwlock/release_read")
	oldWriteAcquire = script("rwlock/acquire_write")
	oldWriteRelease = script("rwlock/release_write")
)

func (l *oldHalf) channel() string { return "redisson_rwlock:{" + l.key + "}" }
func (l *oldHalf) prefix() string  { return "{" + l.key + "}:" }

func (l *oldHalf) lock(ctx context.Context) error {
	l.holder = l.fresh()
	sub, messages, err := l.listen(ctx, l.channel())
	if err != nil {
		return err
	}
	defer sub.Close()
	keys := []string{l.key, "latchkey_writer:{" + l.key + "}"}
	return wait(ctx, messages, func() (bool, error) {
		if l.write {
			return granted(oldWriteAcquire.Run(ctx, l.rdb, keys,
				l.holder+":write", 1, oldLease, notAfter(), oldAhead, l.prefix(), oldBack).Result())
		}
		return granted(oldReadAcquire.Run(ctx, l.rdb, append(keys, l.prefix()+l.holder+":rwlock_timeout:1"),
			l.holder, l.holder+":write", 1, oldLease, notAfter(), oldAhead).Result())
	}, func(*heard) bool { return false })
}

func (l *oldHalf) unlock(ctx context.Context) error {
	release, field := oldReadRelease, l.holder
	if l.write {
		release, field = oldWriteRelease, l.holder+":write"
	}
	return released(release.Run(ctx, l.rdb, []string{l.key}, field, 0, 0, 0, l.prefix(), l.channel(), "PUBLISH").Result())
}
