// Package async makes the channel-returning forms of the primitives' methods.
package async

import (
	"context"

	"github.com/latchkey-go/latchkey"
)

// Err runs f and delivers its error.
func Err(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() {
		ch <- f()
		close(ch)
	}()
	return ch
}

// Result runs f and delivers what it returns.
func Result[T any](f func() (T, error)) <-chan latchkey.Result[T] {
	ch := make(chan latchkey.Result[T], 1)
	go func() {
		v, err := f()
		ch <- latchkey.Result[T]{Value: v, Err: err}
		close(ch)
	}()
	return ch
}

// Hold runs f and delivers its Hold or its error; see Held.
func Hold(f func() (*latchkey.Hold, error)) <-chan latchkey.Result[*latchkey.Hold] {
	return Held(f, (*latchkey.Hold).Context, func(ctx context.Context, h *latchkey.Hold) {
		_ = h.Unlock(ctx) // goes on without ctx; the lease ends it at the latest
	})
}

// Held runs f and delivers what it returns: something that is held for as long
// as its context lives, or an error.
//
// An error closes the channel behind it. Something held leaves it open until its
// context is done, so that what is cancelled while it lies unread in the channel
// can be taken back: it is given to giveBack, and the reader finds the context's
// error in its place. What has no context (nil) closes the channel.
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
		context.AfterFunc(ctx, func() {
			defer close(ch)
			select {
			case <-ch:
				giveBack(ctx, v)
				ch <- latchkey.Result[T]{Err: context.Cause(ctx)}
			default: // it was received; it is the receiver's
			}
		})
	}()
	return ch
}
