package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newGate() *gate {
	g := new(gate)
	g.init()
	return g
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGateEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.True(t, g.enter())
		g.leave()
		require.False(t, ended(g.closed))
		require.True(t, g.shut())
		require.False(t, g.shut(), "once")
		require.True(t, ended(g.closed))
		require.False(t, g.enter())
		start := time.Now()
		g.drain(time.Now())
		require.Zero(t, time.Since(start))
		require.Error(t, g.late.Err(), "clean-up ends with the drain")
	})
}

// Drain waits for the calls inside and for what they leave behind.
func TestGateDrainWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.True(t, g.enter())
		require.True(t, g.enter())
		require.True(t, g.shut())
		time.AfterFunc(100*time.Millisecond, g.leave)
		time.AfterFunc(200*time.Millisecond, func() {
			g.stay()
			g.leave() // the call returns, its clean-up goes on
			time.AfterFunc(300*time.Millisecond, func() {
				require.NoError(t, g.late.Err())
				g.leave()
			})
		})
		start := time.Now()
		g.drain(time.Now())
		require.Equal(t, 500*time.Millisecond, time.Since(start))
	})
}

// Clean-up that takes too long is told to end, and what does not listen is left.
func TestGateDrainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.True(t, g.enter())
		g.shut()
		go func() {
			<-g.late.Done()
			time.Sleep(10 * time.Millisecond)
			g.leave()
		}()
		start := time.Now()
		g.drain(time.Now())
		require.Equal(t, 1010*time.Millisecond, time.Since(start))

		g = newGate()
		require.True(t, g.enter())
		g.shut()
		start = time.Now()
		g.drain(time.Now())
		require.Equal(t, 2*time.Second, time.Since(start))
		g.leave() // at last
		require.True(t, ended(g.idle))
	})
}

// Whoever finds something to clean up while the client is being closed is waited for,
// also when nobody has been inside.
func TestGateRemainsUntilTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.True(t, g.shut())
		require.True(t, g.remain())
		g.leave()
		require.True(t, g.remain())
		time.AfterFunc(100*time.Millisecond, g.leave)
		start := time.Now()
		g.drain(time.Now())
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.False(t, g.remain())
	})
}

// What no lease ends is waited for longer than the rest.
func TestGateDrainWaitsForWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ lasts, takes time.Duration }{
			{500 * time.Millisecond, 2 * time.Second}, // by the call that never leaves
			{3 * time.Second, 4 * time.Second},
			{time.Minute, 7 * time.Second},
		} {
			g := newGate()
			require.True(t, g.enter()) // and does not leave
			g.last()
			g.last()
			require.True(t, g.shut())
			g.yield()
			timer := time.AfterFunc(c.lasts, g.yield)
			start := time.Now()
			g.drain(start.Add(5 * time.Second))
			require.Equal(t, c.takes, time.Since(start), "lasts %v", c.lasts)
			timer.Stop()
		}
	})
}
