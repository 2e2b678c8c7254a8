package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/memo"
)

// Callers of one key in one client share a flight: one of them asks Redis for all.
type flight struct {
	id     any
	done   chan struct{} // closed when res is there
	res    result
	raised atomic.Bool // somebody has gone on with the panic

	// guarded by flights.mu
	waiting int                // callers
	cancel  context.CancelFunc // of its work; nil until that begins
}

// A result is what a flight ends with.
type result struct {
	led   bool   // fn was called here
	value any    // what it returned, for the first caller
	data  []byte // the same for the others, who decode it
	err   error
	again bool      // the others begin again
	crash *crashErr // fn has not returned
}

// crashErr is the value of a panic that goes on in another goroutine.
type crashErr struct {
	value any // nil for a Goexit
	stack []byte
}

func (e *crashErr) Error() string {
	if e.value == nil {
		return "fn has called runtime.Goexit"
	}
	return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack)
}

func (e *crashErr) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// text is what others get.
func (e *crashErr) text() string {
	if e.value == nil {
		return e.Error()
	}
	return engine.ErrorText(fmt.Errorf("panic: %v", e.value))
}

var flights = struct {
	mu        sync.Mutex
	m         map[any]*flight
	refreshed map[any]bool
}{m: map[any]*flight{}, refreshed: map[any]bool{}}

// join returns the flight of a key, and whether it is a new one, which its caller has to
// begin. Each caller has to wait.
func join(id any) (f *flight, first bool) {
	flights.mu.Lock()
	defer flights.mu.Unlock()
	if f = flights.m[id]; f == nil {
		f, first = &flight{id: id, done: make(chan struct{})}, true
		flights.m[id] = f
	}
	f.waiting++
	return f, first
}

// part lets later callers of a key begin a flight of their own.
func part(id any) {
	flights.mu.Lock()
	defer flights.mu.Unlock()
	delete(flights.m, id)
}

// leaves lets later callers begin another flight. The caller holds flights.mu.
func (f *flight) leaves() {
	if flights.m[f.id] == f {
		delete(flights.m, f.id)
	}
}

// end ends f. If fn has panicked and nobody waits, it panics.
func (f *flight) end(res result) {
	flights.mu.Lock()
	f.leaves()
	f.res = res
	close(f.done)
	alone := f.waiting == 0
	flights.mu.Unlock()
	if alone && res.crash != nil && res.crash.value != nil {
		panic(res.crash)
	}
}

// wait waits for the result, or until ctx is done: then over is false.
func (f *flight) wait(ctx context.Context) (res result, over bool) {
	select {
	case <-f.done:
		return f.res, true
	case <-ctx.Done():
	}
	flights.mu.Lock()
	defer flights.mu.Unlock()
	select {
	case <-f.done: // its panic may be for this caller
		return f.res, true
	default:
	}
	if f.waiting--; f.waiting == 0 {
		f.leaves()
		if f.cancel != nil {
			f.cancel()
		}
	}
	return res, false
}

// raise goes on with a panic of fn, or a Goexit, unless another caller has.
func (f *flight) raise() {
	switch crash := f.res.crash; {
	case crash == nil || !f.raised.CompareAndSwap(false, true):
	case crash.value == nil:
		runtime.Goexit()
	default:
		panic(crash)
	}
}

// look ends f with what is kept, or begins its work on a goroutine of its own. The caller
// waits itself.
func (c *caller) look(ctx context.Context, f *flight, fn func(context.Context) (any, error)) {
	rec, err := c.memo.Kept(ctx, "do")
	switch {
	case err != nil:
		f.end(result{err: err, again: ctx.Err() != nil})
	case c.serves(rec):
		if !rec.Fresh {
			c.refresh(ctx, fn)
		}
		f.end(result{data: rec.Value})
	default:
		wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		flights.mu.Lock()
		f.cancel = cancel
		flights.mu.Unlock()
		go func() {
			defer cancel()
			var res result
			defer func() { f.end(res) }()
			c.lead(wctx, fn, &res)
		}()
	}
}

// serves reports whether a value is one for this caller.
func (c *caller) serves(rec memo.Record) bool {
	return rec.State == memo.Done && (rec.Fresh || c.cfg.stale > 0)
}

// take takes what is known, if it is a result.
func (c *caller) take(rec memo.Record, res *result) bool {
	switch {
	case c.serves(rec):
		res.data = rec.Value
	case rec.State == memo.Failed:
		res.err = &Error{rec.Text}
	default:
		return false
	}
	return true
}

// lead calls fn, or waits for who does, until there is a result.
func (c *caller) lead(ctx context.Context, fn func(context.Context) (any, error), res *result) {
	if c.cfg.errorTTL > 0 {
		rec, err := c.memo.Read(ctx, "do")
		if res.err = err; err != nil || c.take(rec, res) {
			return
		}
	}
	for {
		call, rec, err := c.memo.Begin(ctx, "do", "")
		switch {
		case errors.Is(err, latchkey.ErrLeaseLost):
			continue // it had the lock no longer when it began
		case err != nil:
			res.err = err
			return
		case call != nil:
			c.run(ctx, call, fn, res)
			return
		case c.take(rec, res):
			return
		}
		rec, err = c.memo.Wait(ctx, "do", rec)
		if res.err = err; err != nil || c.take(rec, res) {
			return
		}
	}
}

// run calls fn and keeps what comes of it. ctx is done when nobody waits any more.
func (c *caller) run(ctx context.Context, call *memo.Call, fn func(context.Context) (any, error), res *result) {
	res.led = true
	returned := false
	defer func() {
		if returned {
			return
		}
		crash := &crashErr{value: recover(), stack: debug.Stack()}
		_ = call.Fail(ctx, "do", crash.text(), 0)
		res.crash, res.err = crash, &Error{crash.text()}
	}()
	v, err := fn(call.Context())
	if err == nil {
		res.value = v
		res.data, err = c.encode(v)
	}
	returned = true
	cause := context.Cause(call.Context())
	switch {
	case err == nil:
		fresh := c.cfg.ttl
		if c.cfg.stale == 0 {
			fresh = 0 // as long as it is kept
		}
		err = call.Keep(ctx, "do", res.data, c.cfg.ttl+c.cfg.stale, fresh)
		if res.again = c.passed(err); !errors.Is(err, memo.ErrForgotten) {
			res.err = err
		}
	case cause != nil:
		if res.err, res.again = err, true; !errors.Is(err, cause) {
			res.err = errors.Join(err, cause)
		}
		_ = call.Drop(ctx, "do") // somebody else does it
	default:
		res.err = err
		ended := call.Fail(ctx, "do", engine.ErrorText(err), c.cfg.errorTTL)
		if res.again = c.passed(ended); ended != nil && !errors.Is(ended, memo.ErrForgotten) {
			res.err = errors.Join(err, ended)
		}
	}
}

// passed reports whether the end of a call is no result for others.
func (c *caller) passed(err error) bool {
	return errors.Is(err, latchkey.ErrLeaseLost) || errors.Is(err, memo.ErrForgotten)
}

func (c *caller) encode(v any) ([]byte, error) {
	data, err := c.cfg.encode(v)
	switch {
	case err != nil:
		return nil, c.memo.Wrap("do", fmt.Errorf("the value cannot be encoded: %w", err))
	case len(data) > c.cfg.maxSize:
		return nil, c.memo.Wrap("do", fmt.Errorf("%w: %d bytes, the most is %d", ErrTooLarge, len(data), c.cfg.maxSize))
	}
	return data, nil
}

// refresh calls fn in the background for a new value, unless somebody is at it.
func (c *caller) refresh(ctx context.Context, fn func(context.Context) (any, error)) {
	id := c.memo.ID()
	flights.mu.Lock()
	defer flights.mu.Unlock()
	if flights.refreshed[id] {
		return
	}
	flights.refreshed[id] = true
	ctx = context.WithoutCancel(ctx)
	go func() {
		var res result
		defer func() {
			flights.mu.Lock()
			delete(flights.refreshed, id)
			flights.mu.Unlock()
			if res.crash != nil && res.crash.value != nil {
				panic(res.crash)
			}
		}()
		if call, _, err := c.memo.Begin(ctx, "do", ""); err == nil && call != nil {
			c.run(ctx, call, fn, &res)
		}
	}()
}
