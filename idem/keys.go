package idem

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/memo"
)

var (
	// ErrUnderWay is the error of a call while another one with its key is under way.
	ErrUnderWay = errors.New("a call with this key is under way")
	// ErrReused is the error of a call whose key was used for a different one.
	ErrReused = errors.New("the key belongs to a different call")
	// ErrKey is the error of a call whose key is empty, has more than 255 characters, or
	// has others than printable ones of ASCII.
	ErrKey = errors.New("the key is not valid")
)

// Keys is what Middleware has below HTTP, for other protocols: it carries out a call once
// for each key. It is safe for concurrent use.
type Keys struct {
	client *latchkey.Client
	cfg    config
}

// New returns Keys. It does no I/O. It panics if c is nil or an option is invalid.
func New(c *latchkey.Client, opts ...KeysOption) *Keys {
	if c == nil {
		panic("idem: New: the client is nil")
	}
	cfg := newConfig()
	for _, o := range opts {
		o.apply(&cfg)
	}
	if cfg.wrong != nil {
		panic(fmt.Sprintf("idem: New: %v", cfg.wrong))
	}
	return newKeys(c, &cfg)
}

func newKeys(c *latchkey.Client, cfg *config) *Keys { return &Keys{client: c, cfg: *cfg} }

// Do calls fn, unless a reply is kept for the key, and returns the reply; replayed is set
// if it was kept. If fn says keep, its reply is kept when Do returns, for as long as TTL
// says. If not, or if fn panics, nothing is kept, and the next call with the key calls its
// function.
//
// A key belongs to one scope, such as a user, and to one request: with another one the
// error is ErrReused. Redis keeps hashes of the three only.
//
// If another call with the key is under way, Do waits for its end, for as long as Wait
// says, and then returns ErrUnderWay.
//
// fn's context has the values of ctx and does not end with it, so that what was begun is
// finished and kept when the caller has gone. It ends when the lease is lost. err is or
// contains [latchkey.ErrLeaseLost] then, and nothing is kept. When fn was called, Do
// returns its reply with every error.
func (k *Keys) Do(ctx context.Context, scope, key string, request []byte, fn func(ctx context.Context) (reply []byte, keep bool)) (reply []byte, replayed bool, err error) {
	id := lengthPrefixed(nil, scope, key)
	m := memo.New(k.client, memo.Config{Kind: "idem", Name: k.cfg.name + ":" + digest(id), AtMost: k.cfg.atMost})
	if err := checkKey(key); err != nil {
		return nil, false, m.Wrap("do", err)
	}
	mark := digest(append(id, request...))
	until := time.Now().Add(k.cfg.wait)
	for {
		call, rec, err := m.Begin(context.WithoutCancel(ctx), "do", mark)
		if err != nil {
			return nil, false, err
		}
		if call != nil {
			reply, err = k.run(m, call, fn)
			return reply, false, err
		}
		if rec.State == memo.Running && (rec.Call == "" || rec.Mark == mark) {
			if rec, err = wait(ctx, m, rec, until); err != nil {
				return nil, false, m.Wrap("do", err)
			}
		}
		switch {
		case rec.Call != "" && rec.Mark != mark:
			return nil, false, m.Wrap("do", ErrReused)
		case rec.State == memo.Done:
			return rec.Value, true, nil
		}
	}
}

// wait waits for the end of the call that is under way, and returns what came of it.
func wait(ctx context.Context, m *memo.Memo, seen memo.Record, until time.Time) (memo.Record, error) {
	bound, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if bound.Err() == nil {
		if rec, err := m.Wait(bound, "do", seen); err == nil || bound.Err() == nil {
			return rec, err
		}
	}
	if err := ctx.Err(); err != nil {
		return memo.Record{}, err
	}
	return memo.Record{}, ErrUnderWay
}

// run calls fn and keeps its reply.
func (k *Keys) run(m *memo.Memo, call *memo.Call, fn func(context.Context) ([]byte, bool)) (reply []byte, err error) {
	keep := false
	ctx := call.Context()
	err = engine.During(
		func() error {
			reply, keep = fn(ctx)
			if ctx.Err() != nil {
				keep = false // fn may have stopped half way
				return m.Wrap("do", context.Cause(ctx))
			}
			return nil
		},
		func() error {
			if !keep {
				return call.Drop(ctx, "do")
			}
			return call.Keep(ctx, "do", reply, k.cfg.ttl, 0)
		},
	)
	return reply, err
}

// digest returns a hash as text.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// lengthPrefixed appends texts so that no others give the same bytes.
func lengthPrefixed(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}
