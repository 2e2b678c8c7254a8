package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBoundEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{at: time.Now().Add(time.Second)}
		at, ok := b.Deadline()
		require.True(t, ok)
		require.Equal(t, b.at, at)
		require.NoError(t, b.Err())
		require.Nil(t, b.timed, "a timer that nobody waits for")
		time.Sleep(time.Second)
		require.ErrorIs(t, b.Err(), context.DeadlineExceeded)
		<-b.Done()

		b = &bound{at: time.Now().Add(time.Second)}
		start := time.Now()
		<-b.Done()
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, b.Err(), context.DeadlineExceeded)

		b = &bound{at: time.Now().Add(time.Second)}
		child, cancel := context.WithTimeout(&cleanup{Context: b, values: t.Context()}, time.Minute)
		defer cancel()
		start = time.Now()
		<-child.Done()
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, child.Err(), context.DeadlineExceeded)
	})
}

func TestBoundsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bounds
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "mine"))
		cancel()
		start := time.Now()
		first := b.next(ctx, time.Second)
		require.NoError(t, first.Err(), "that of the caller ends nothing")
		require.Equal(t, "mine", first.Value(key{}))
		time.Sleep(share)
		require.Same(t, first.Context, b.next(t.Context(), time.Second).Context)
		time.Sleep(time.Millisecond)
		later := b.next(t.Context(), time.Second)
		require.NotSame(t, first.Context, later.Context)
		<-first.Done()
		require.Equal(t, time.Second+share, time.Since(start))
		require.NoError(t, later.Err())
		<-later.Done()
		require.Equal(t, time.Second+2*share+time.Millisecond, time.Since(start), "a second at least from each call")
	})
}
