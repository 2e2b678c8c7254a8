package engine

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// However many calls leave something behind, a bounded number of goroutines
// deals with it, and all of it in the end.
func TestChoresAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(Engine)
		e.gate.init()
		const n = 5000
		var tries, ended atomic.Int64
		for i := range n {
			needed := 1 + i%3
			require.True(t, e.later(func(context.Context) bool {
				time.Sleep(10 * time.Millisecond)
				tries.Add(1)
				needed--
				return needed == 0
			}, func() { ended.Add(1) }))
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), choreHands+20)
		time.Sleep(time.Minute)
		require.EqualValues(t, n, ended.Load())
		require.EqualValues(t, 2*n-1, tries.Load())
		synctest.Wait()
		require.Empty(t, e.chores.all)
		require.Zero(t, e.chores.hands)
		require.True(t, e.gate.shut())
		e.gate.drain(time.Now()) // nobody is inside
	})
}

// Close waits for the tries that are under way, and gives up the rest.
func TestChoresEndWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(Engine)
		e.gate.init()
		var ended atomic.Int64
		const n = 3 * choreHands
		for range n {
			e.later(func(ctx context.Context) bool {
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
				return false
			}, func() { ended.Add(1) })
		}
		time.Sleep(7 * time.Millisecond)
		require.True(t, e.gate.enter())
		require.True(t, e.gate.shut())
		e.gate.drain(time.Now())
		require.EqualValues(t, n, ended.Load())
		require.False(t, e.later(func(context.Context) bool { t.Error("tried after the end"); return true }, func() { ended.Add(1) }))
		require.EqualValues(t, n+1, ended.Load())
	})
}

// A chore that has failed is tried once more when its client is closed, however long
// its pause, and not twice.
func TestChoresHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(Engine)
		e.gate.init()
		var tries []time.Duration
		start := time.Now()
		e.later(func(context.Context) bool {
			tries = append(tries, time.Since(start))
			return len(tries) == 4
		}, func() {})
		time.Sleep(300 * time.Millisecond)
		require.True(t, e.gate.shut())
		e.chores.hurry(e)
		e.gate.drain(time.Now())
		require.Equal(t, 300*time.Millisecond, time.Since(start), "Close does not wait for the next try")
		time.Sleep(time.Minute)
		require.Equal(t, []time.Duration{0, 50 * time.Millisecond, 250 * time.Millisecond, 300 * time.Millisecond}, tries)
	})
}

func TestChoresHaveAMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(Engine)
		e.gate.init()
		e.chores.hands = choreHands // nobody does anything
		for range choresMost {
			require.True(t, e.later(nil, func() {}))
		}
		ended := false
		require.False(t, e.later(nil, func() { ended = true }))
		require.True(t, ended)
		e.gate.end()
		synctest.Wait()
		require.Empty(t, e.chores.all)
	})
}
