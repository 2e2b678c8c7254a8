package flight

import (
	"context"
	"errors"
	"fmt"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/memo"
	"github.com/latchkey-go/latchkey/internal/names"
)

// An Error is an error that fn has returned in another process, or the text of a panic
// there. Within a process callers get the error itself.
type Error struct {
	Text string // up to 1,000 bytes
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// ErrTooLarge is the error of Do if the value is larger than MaxSize.
var ErrTooLarge = errors.New("the value is too large")

// A caller is one call of a function of this package.
type caller struct {
	memo *memo.Memo
	cfg  config
}

func newCaller(c *latchkey.Client, op, key string, opts []Option) (*caller, error) {
	if c == nil {
		return nil, fmt.Errorf("flight: %s %q: the client is nil", op, key)
	}
	cfg := newConfig(opts)
	m := memo.New(c, memo.Config{Kind: "flight", Name: key, AtMost: cfg.atMost})
	if err := names.Check(key); err != nil {
		return nil, m.Wrap(op, err)
	}
	return &caller{m, cfg}, m.Wrap(op, cfg.wrong)
}

// Do returns the value that is kept for key. If there is none, one of all its callers, in
// whatever process, calls fn for it, and the others wait for that. shared reports whether
// v is the result of another call, or was kept. Each caller has a copy of its own.
//
// fn's context has the values of its caller's. It is done when the lock of the key is lost,
// when AtMost is over, when the client is closed, and when nobody in this process waits any
// more; a caller whose ctx ends leaves the others alone. If fn then returns an error, that
// is its own caller's alone, and one of those who still wait calls its fn.
//
// An error of fn is that of all who wait. In other processes it is an [*Error] with the
// text. If fn panics or calls runtime.Goexit, that goes on in one of its callers in this
// process, as a panic with an error of the value and its stack, and the others get an
// error. If no caller is left, a panic ends the process.
//
// If fn has returned a value that could not be kept, v is that value for the caller whose
// fn it was, and err says why: ErrTooLarge; [latchkey.ErrLeaseLost] if another fn may have
// begun; or an error of Redis, after which it may have been kept. Calls that fail before
// fn, because Redis does not answer or an option is invalid, do not call it. ErrReentry
// means that ctx is that of a fn for this key.
func Do[T any](
	ctx context.Context, c *latchkey.Client, key string, fn func(ctx context.Context) (T, error), opts ...Option,
) (v T, shared bool, err error) {
	call, err := newCaller(c, "do", key, opts)
	if err != nil {
		return v, false, err
	}
	if call.memo.Inside(ctx) {
		return v, false, call.memo.Wrap("do", engine.ErrReentry)
	}
	work := func(ctx context.Context) (any, error) { return fn(ctx) }
	for {
		if ctx.Err() != nil {
			return v, false, call.memo.Wrap("do", ctx.Err())
		}
		f, first := join(call.memo.ID())
		if first {
			call.look(ctx, f, work)
		}
		res, over := f.wait(ctx)
		if !over {
			return v, false, call.memo.Wrap("do", ctx.Err())
		}
		f.raise()
		if first && res.led {
			v, _ = res.value.(T)
			return v, false, res.err
		}
		switch {
		case res.again && first && res.err != nil:
			return v, false, res.err
		case res.again:
			continue
		case res.err != nil:
			return v, true, res.err
		}
		err = call.decode("do", res.data, &v)
		return v, true, err
	}
}

func (c *caller) decode(op string, data []byte, v any) error {
	if err := c.cfg.decode(data, v); err != nil {
		return c.memo.Wrap(op, fmt.Errorf("the value that is kept cannot be decoded: %w", err))
	}
	return nil
}

// Get returns the value that is kept for key, also one that is Stale. ok is false if there
// is none. It takes one command and does not wait. Of the options only Codec counts.
func Get[T any](ctx context.Context, c *latchkey.Client, key string, opts ...Option) (v T, ok bool, err error) {
	call, err := newCaller(c, "get", key, opts)
	if err != nil {
		return v, false, err
	}
	rec, err := call.memo.Kept(ctx, "get")
	if err != nil || rec.State != memo.Done {
		return v, false, err
	}
	err = call.decode("get", rec.Value, &v)
	return v, err == nil, err
}

// Forget removes what is kept for key. A call that begins after Forget has returned does
// not get a value of a fn that was called before: what a fn under way returns is not kept,
// and goes to its own caller alone. The others, and those who come meanwhile, wait for its
// end, and one of them calls its fn. (A client that sends its reads to replicas may see
// what was forgotten until they have heard of it.)
func Forget(ctx context.Context, c *latchkey.Client, key string) error {
	call, err := newCaller(c, "forget", key, nil)
	if err != nil {
		return err
	}
	err = call.memo.Forget(ctx, "forget")
	part(call.memo.ID())
	return err
}
