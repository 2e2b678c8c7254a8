package latchkey_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// A liar replies to scripts with whatever it is told.
type liar struct {
	mu   sync.Mutex
	data []byte
}

// serverErr is an error that the server sends.
type serverErr string

func (e serverErr) Error() string { return string(e) }
func (serverErr) RedisError()     {}

func (l *liar) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *liar) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !l.lie(cmd) {
			return next(ctx, cmd)
		}
		return cmd.Err()
	}
}

func (l *liar) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if !l.lie(cmd) {
				return next(ctx, cmds)
			}
		}
		return nil
	}
}

func (l *liar) lie(cmd redis.Cmder) bool {
	c, ok := cmd.(interface{ SetVal(val any) })
	if !ok || !strings.HasPrefix(cmd.Name(), "eval") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v := l.value(2).(type) {
	case error:
		cmd.SetErr(v)
	default:
		c.SetVal(v)
	}
	return true
}

// errorTexts are what a server may refuse with; the first ends every retry.
var errorTexts = []string{
	"ERR the end", "OOM x", "NOSCRIPT No matching script.", "WRONGTYPE x", "BUSY x", "LOADING x", "READONLY x", "NOPERM x",
	"TRYAGAIN x", "", "CROSSSLOT x", "MASTERDOWN x",
}

// value makes the next reply from the data: a number, a text, nil, an error, or
// an array of these.
func (l *liar) value(depth int) any {
	b, ok := l.next()
	if !ok {
		return serverErr(errorTexts[0])
	}
	arg := int(b >> 3)
	switch b & 7 {
	case 0, 1:
		return int64(arg) - 4
	case 2:
		var word [8]byte
		l.data = l.data[copy(word[:], l.data):]
		return int64(binary.LittleEndian.Uint64(word[:]))
	case 3:
		n := min(arg, len(l.data))
		text := string(l.data[:n])
		l.data = l.data[n:]
		return text
	case 4:
		return time.Now().UnixMilli() + int64(arg) // a time that may be the server's
	case 5:
		if arg >= len(errorTexts) {
			return nil
		}
		if depth == 2 {
			return serverErr(errorTexts[arg])
		}
		return errorTexts[arg]
	}
	if depth == 0 {
		return nil
	}
	list := make([]any, arg%13)
	for i := range list {
		list[i] = l.value(depth - 1)
		if _, ok := list[i].(error); ok {
			list[i] = nil
		}
	}
	return list
}

func (l *liar) next() (byte, bool) {
	if len(l.data) == 0 {
		return 0, false
	}
	b := l.data[0]
	l.data = l.data[1:]
	return b, true
}

// calls returns one call for each kind of reply. Only the errors of the calls
// matter.
func calls(ctx context.Context, c *latchkey.Client) []func() error {
	try := []latchkey.LockOption{latchkey.Wait(time.Second), latchkey.Label("l")}
	all := []func() error{
		func() error { _, err := c.Info(ctx, "n"); return err },
		func() error {
			sem := semaphore.New(c, "n")
			_, err := sem.TrySetPermits(ctx, 3)
			return errors.Join(err, sem.TryAcquire(ctx, 2, latchkey.Wait(time.Second)), sem.Release(ctx, 2))
		},
		func() error {
			sem := semaphore.New(c, "n")
			_, err := sem.DrainPermits(ctx)
			_, err1 := sem.AvailablePermits(ctx)
			_, err2 := sem.ReleaseIfExists(ctx, 1)
			_, err3 := sem.Delete(ctx)
			return errors.Join(err, err1, err2, err3, sem.AddPermits(ctx, -1))
		},
		func() error {
			sem := permitsemaphore.New(c, "n")
			ps, err := sem.TryAcquireN(ctx, 2, latchkey.Wait(time.Second))
			for _, p := range ps {
				err = errors.Join(err, p.Extend(ctx, time.Minute), p.Release(ctx))
			}
			return err
		},
		func() error {
			sem := permitsemaphore.New(c, "n")
			id := strings.Repeat("0a", 16)
			_, err := sem.TrySetPermits(ctx, 3)
			_, err1 := sem.AvailablePermits(ctx)
			_, err2 := sem.TryRelease(ctx, id)
			_, err3 := sem.LeaseTime(ctx, id)
			_, err4 := sem.UpdateLease(ctx, id, time.Minute)
			_, err5 := sem.Permits(ctx)
			return errors.Join(err, err1, err2, err3, err4, err5, sem.Release(ctx, id))
		},
		func() error {
			l := countdownlatch.New(c, "n")
			_, err := l.TrySetCount(ctx, 3)
			_, err1 := l.Count(ctx)
			waits, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err2 := l.Delete(ctx)
			return errors.Join(err, err1, err2, l.CountDown(ctx), l.Await(waits), l.AwaitSet(waits))
		},
	}
	fair := fairlock.New(c, "n")
	fenced := rlock.New(c, "n", rlock.Fenced())
	for _, l := range []interface {
		latchkey.Locker
		ForceUnlock(ctx context.Context) (bool, error)
	}{
		rlock.New(c, "n"), fenced, rlock.New(c, "n", rlock.Spin(rlock.Backoff{})), fair,
		rwlock.New(c, "n").ReadLock(), rwlock.New(c, "n").WriteLock(),
	} {
		all = append(all, func() error {
			h, err := l.TryLock(ctx, try...)
			if err == nil {
				again, nested := l.TryLock(h.Context())
				err = errors.Join(nested, h.Extend(ctx, time.Minute))
				if nested == nil {
					err = errors.Join(err, again.Unlock(ctx))
				}
				time.Sleep(15 * time.Second) // a renewal
				err = errors.Join(err, h.Unlock(ctx))
			}
			_, force := l.ForceUnlock(ctx)
			return errors.Join(err, force)
		}, func() error {
			s := l.(interface {
				IsLocked(ctx context.Context) (bool, error)
				HoldCount(ctx context.Context) (int, error)
				TTL(ctx context.Context) (time.Duration, error)
			})
			_, err := s.IsLocked(ctx)
			_, err1 := s.HoldCount(latchkey.WithHolder(ctx))
			_, err2 := s.TTL(ctx)
			return errors.Join(err, err1, err2)
		})
	}
	for _, l := range []latchkey.Locker{multilock.NewGroup(c, "n", "x", "y"), multilock.New(rlock.New(c, "n"), fair)} {
		all = append(all, func() error {
			h, err := l.TryLock(ctx, try...)
			if err == nil {
				err = h.Unlock(ctx)
			}
			return err
		})
	}
	return append(all, func() error {
		_, err := fair.Waiters(ctx)
		_, err1 := fenced.Token(ctx)
		return errors.Join(err, err1)
	})
}

// Whatever scripts reply, calls end, with an error if the reply made no sense,
// and the client can be closed.
func FuzzReplies(f *testing.F) {
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { _ = rdb.Close() })
	for n := range len(calls(f.Context(), latchkey.New(rdb))) {
		f.Add(uint8(n), []byte{})
		f.Add(uint8(n), []byte{0x2c, 0x24, 0x28, 0x28, 0x28, 0x28})                     // plain numbers
		f.Add(uint8(n), []byte{0x1e, 0x28, 0x04, 0x04, 0x2e, 0x28, 0x04, 0x04, 0x28})   // {1, ms, ms}
		f.Add(uint8(n), []byte{0x1e, 0x20, 0x04, 0x04, 0x26, 0x18, 0x28, 0x04, 0x20})   // refused, then other things
		f.Add(uint8(n), []byte{0x15, 0x04, 0x2d, 0x04, 0x35, 0x16, 0x10, 0x04})         // errors between
		f.Add(uint8(n), []byte{0x36, 0x23, 'h', 'a', 's', 'h', 0x1c, 0x04, 0x03, 0x06}) // lists
	}
	f.Fuzz(func(t *testing.T, call uint8, data []byte) {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			rdb := b.Client()
			rdb.AddHook(&liar{data: data})
			c := latchkey.New(rdb)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			all := calls(ctx, c)
			start := time.Now()
			err := all[int(call)%len(all)]()
			require.Less(t, time.Since(start), 2*time.Minute)
			var e *latchkey.Error
			if err != nil {
				require.True(t, errors.As(err, &e), "%T: %v", err, err)
				require.NotEmpty(t, err.Error())
			}
			start = time.Now()
			_ = c.Close() // with what could not be given back
			require.Less(t, time.Since(start), time.Minute)
		})
	})
}
