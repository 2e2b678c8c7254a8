package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGateEmpty(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		require.True(t, g.Enter())
		g.Leave()
		require.False(t, ended(g.closed))
		require.True(t, g.Shut())
		require.False(t, g.Shut(), "once")
		require.True(t, ended(g.closed))
		require.False(t, g.Enter())
		start := time.Now()
		g.Drain(time.Now())
		require.Zero(t, time.Since(start))
		require.Error(t, g.late.Err(), "clean-up ends with the drain")
	})
}

// Drain waits for the calls inside and for what they leave behind.
func TestGateDrainWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		require.True(t, g.Enter())
		require.True(t, g.Enter())
		require.True(t, g.Shut())
		time.AfterFunc(100*time.Millisecond, g.Leave)
		time.AfterFunc(200*time.Millisecond, func() {
			g.Stay()
			g.Leave() // the call returns, its clean-up goes on
			time.AfterFunc(300*time.Millisecond, func() {
				require.NoError(t, g.late.Err())
				g.Leave()
			})
		})
		start := time.Now()
		g.Drain(time.Now())
		require.Equal(t, 500*time.Millisecond, time.Since(start))
	})
}

// Clean-up that takes too long is told to end, and what does not listen is left.
func TestGateDrainEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		require.True(t, g.Enter())
		g.Shut()
		go func() {
			<-g.late.Done()
			time.Sleep(10 * time.Millisecond)
			g.Leave()
		}()
		start := time.Now()
		g.Drain(time.Now())
		require.Equal(t, 1010*time.Millisecond, time.Since(start))

		g = NewGate()
		require.True(t, g.Enter())
		g.Shut()
		start = time.Now()
		g.Drain(time.Now())
		require.Equal(t, 2*time.Second, time.Since(start))
		g.Leave() // at last
		require.True(t, ended(g.idle))
	})
}

// Whoever finds something to clean up while the client is being closed is waited for,
// also when nobody has been inside.
func TestGateRemainsUntilTheDrain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := NewGate()
		require.True(t, g.Shut())
		require.True(t, g.Remain())
		g.Leave()
		require.True(t, g.Remain())
		time.AfterFunc(100*time.Millisecond, g.Leave)
		start := time.Now()
		g.Drain(time.Now())
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.False(t, g.Remain())
	})
}

// What no lease ends is waited for longer than the rest.
func TestGateDrainWaitsForWhatLasts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, c := range []struct{ lasts, takes time.Duration }{
			{500 * time.Millisecond, 2 * time.Second}, // by the call that never leaves
			{3 * time.Second, 4 * time.Second},
			{time.Minute, 7 * time.Second},
		} {
			g := NewGate()
			require.True(t, g.Enter()) // and does not leave
			g.last()
			g.last()
			require.True(t, g.Shut())
			g.yield()
			timer := time.AfterFunc(c.lasts, g.yield)
			start := time.Now()
			g.Drain(start.Add(5 * time.Second))
			require.Equal(t, c.takes, time.Since(start), "lasts %v", c.lasts)
			timer.Stop()
		}
	})
}
