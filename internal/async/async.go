// Package async implements the methods of the primitives that return a channel.
package async

import (
	"context"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// Err runs f in a goroutine. The channel delivers its error.
func Err(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() {
		ch <- f()
		close(ch)
	}()
	return ch
}

// Result runs f in a goroutine. The channel delivers its result.
func Result[T any](f func() (T, error)) <-chan latchkey.Result[T] {
	ch := make(chan latchkey.Result[T], 1)
	go func() {
		v, err := f()
		ch <- latchkey.Result[T]{Value: v, Err: err}
		close(ch)
	}()
	return ch
}

// Hold runs f in a goroutine. The channel delivers its Hold or its error; see
// Held.
func Hold(f func() (*latchkey.Hold, error)) <-chan latchkey.Result[*latchkey.Hold] {
	return Held(f, (*latchkey.Hold).Context, func(ctx context.Context, h *latchkey.Hold) {
		_ = h.Unlock(ctx) // works although ctx is done; otherwise the lease ends the hold
	})
}

// Held runs f in a goroutine. The channel delivers its result: a value that is
// held until its context is done, or an error.
//
// After an error, the channel is closed at once. After a held value, the
// channel stays open until the value's context is done. If the value is still
// unread then, Held passes it to giveBack and puts the context's error in its
// place. After a value without a context (nil), the channel is closed at once.
func Held[T any](f func() (T, error), life func(T) context.Context, giveBack func(context.Context, T)) <-chan latchkey.Result[T] {
	ch := make(chan latchkey.Result[T], 1)
	go func() {
		v, err := f()
		ch <- latchkey.Result[T]{Value: v, Err: err}
		var ctx context.Context
		if err == nil {
			ctx = life(v)
		}
		if ctx == nil {
			close(ch)
			return
		}
		// Nothing here keeps a value that its receiver has forgotten.
		ctx = engine.WithoutLeash(ctx)
		context.AfterFunc(ctx, func() {
			defer close(ch)
			select {
			case r := <-ch:
				giveBack(ctx, r.Value)
				ch <- latchkey.Result[T]{Err: context.Cause(ctx)}
			default: // received: it belongs to the receiver
			}
		})
	}()
	return ch
}
