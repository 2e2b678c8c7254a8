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

// Hold runs f and delivers its Hold or its error.
//
// An error closes the channel behind it. A Hold leaves it open until the Hold
// ends, so that one whose context is cancelled while it lies unread in the
// channel can be taken back: it is unlocked, and the reader finds the context's
// error in its place.
func Hold(f func() (*latchkey.Hold, error)) <-chan latchkey.Result[*latchkey.Hold] {
	ch := make(chan latchkey.Result[*latchkey.Hold], 1)
	go func() {
		h, err := f()
		ch <- latchkey.Result[*latchkey.Hold]{Value: h, Err: err}
		if err != nil {
			close(ch)
			return
		}
		context.AfterFunc(h.Context(), func() {
			defer close(ch)
			select {
			case <-ch:
				ctx := h.Context()
				_ = h.Unlock(ctx) // goes on without ctx; the lease ends it at the latest
				ch <- latchkey.Result[*latchkey.Hold]{Err: context.Cause(ctx)}
			default: // it was received; it is the receiver's
			}
		})
	}()
	return ch
}
