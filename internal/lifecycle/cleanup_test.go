package lifecycle

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// However many calls leave something behind, a bounded number of goroutines
// deals with it, and all of it in the end.
func TestCleanupAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		cl := NewCleanup(g)
		const n = 5000
		var tries, ended atomic.Int64
		for i := range n {
			needed := 1 + i%3
			require.True(t, cl.Later(func(context.Context) bool {
				time.Sleep(10 * time.Millisecond)
				tries.Add(1)
				needed--
				return needed == 0
			}, func() { ended.Add(1) }))
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), hands+20)
		time.Sleep(time.Minute)
		require.EqualValues(t, n, ended.Load())
		require.EqualValues(t, 2*n-1, tries.Load())
		synctest.Wait()
		require.Empty(t, cl.all)
		require.Zero(t, cl.busy)
		require.True(t, g.Shut())
		g.Drain(time.Now()) // nobody is inside
	})
}

// Close waits for the tries that are under way, and gives up the rest.
func TestCleanupEndWithTheClient(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		cl := NewCleanup(g)
		var ended atomic.Int64
		const n = 3 * hands
		for range n {
			cl.Later(func(ctx context.Context) bool {
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
				return false
			}, func() { ended.Add(1) })
		}
		time.Sleep(7 * time.Millisecond)
		require.True(t, g.Enter())
		require.True(t, g.Shut())
		g.Drain(time.Now())
		require.EqualValues(t, n, ended.Load())
		require.False(t, cl.Later(func(context.Context) bool { t.Error("tried after the end"); return true }, func() { ended.Add(1) }))
		require.EqualValues(t, n+1, ended.Load())
	})
}

// A chore that has failed is tried once more when its client is closed, however long
// its pause, and not twice.
func TestCleanupHurry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		cl := NewCleanup(g)
		var tries []time.Duration
		start := time.Now()
		cl.Later(func(context.Context) bool {
			tries = append(tries, time.Since(start))
			return len(tries) == 4
		}, func() {})
		time.Sleep(300 * time.Millisecond)
		require.True(t, g.Shut())
		cl.Hurry()
		g.Drain(time.Now())
		require.Equal(t, 300*time.Millisecond, time.Since(start), "Close does not wait for the next try")
		time.Sleep(time.Minute)
		require.Equal(t, []time.Duration{0, 50 * time.Millisecond, 250 * time.Millisecond, 300 * time.Millisecond}, tries)
	})
}

func TestCleanupHaveAMost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		cl := NewCleanup(g)
		cl.busy = hands // nobody does anything
		for range most {
			require.True(t, cl.Later(nil, func() {}))
		}
		ended := false
		require.False(t, cl.Later(nil, func() { ended = true }))
		require.True(t, ended)
		g.end()
		synctest.Wait()
		require.Empty(t, cl.all)
	})
}
