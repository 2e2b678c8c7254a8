package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// carriedOut says what a script does with a request, as the scripts do it.
func carriedOut(d Deadline, serverMs int64) bool {
	return serverMs <= d.NotAfter && d.NotAfter-serverMs <= d.Ahead
}

func TestServerClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClock()
		require.Equal(t, Deadline{NotAfter: time.Now().UnixMilli() + 5000, Ahead: 6000},
			c.Deadline(time.Now(), 5*time.Second), "until the first answer this machine's wall")

		// A server that is an hour ahead; a round trip of 40 ms.
		server := func() int64 { return time.Now().Add(time.Hour).UnixMilli() }
		require.False(t, carriedOut(c.Deadline(time.Now(), time.Second), server()))
		time.Sleep(20 * time.Millisecond)
		told := server()
		time.Sleep(20 * time.Millisecond)
		c.learn(time.Now(), told)
		require.Equal(t, server()+5000-20, c.Deadline(time.Now(), 5*time.Second).NotAfter, "behind by the way back")
		time.Sleep(10 * time.Hour)
		d := c.Deadline(time.Now(), 5*time.Second)
		require.True(t, carriedOut(d, server()))
		require.True(t, carriedOut(d, server()+5000-20))
		require.False(t, carriedOut(d, server()+5000-19), "too late")
		require.False(t, carriedOut(d, server()-1021), "the server's clock was set back")

		// And one that is behind.
		server = func() int64 { return time.Now().Add(-time.Hour).UnixMilli() }
		require.False(t, carriedOut(c.Deadline(time.Now(), time.Second), server()), "it has failed over")
		c.learn(time.Now(), server())
		require.True(t, carriedOut(c.Deadline(time.Now(), time.Second), server()))
	})
}

// However slow the server is, no request is carried out after its time; at worst
// the next one is refused, which tells the time.
func TestServerClockLateReply(t *testing.T) {
	const bound = time.Second
	for _, c := range []struct {
		there, back time.Duration
		works       bool // the next request, that takes no time
	}{
		{10 * time.Millisecond, 900 * time.Millisecond, true},
		{900 * time.Millisecond, 10 * time.Millisecond, true},
		{4 * time.Second, 0, true},  // a server that stood still before it ran the script
		{0, 4 * time.Second, false}, // and after that: the estimate is 4 s behind
	} {
		bubble.Test(t, func(t *testing.T) {
			clock := newClock()
			time.Sleep(c.there)
			told := time.Now().UnixMilli()
			time.Sleep(c.back)
			clock.learn(time.Now(), told)

			d := clock.Deadline(time.Now(), bound)
			require.Equal(t, c.works, carriedOut(d, time.Now().UnixMilli()), c)
			for late := bound + time.Millisecond; late < 10*time.Second; late += 100 * time.Millisecond {
				require.False(t, carriedOut(d, time.Now().Add(late).UnixMilli()), "%v: %v late", c, late)
			}
			// The refusal has told the time.
			clock.learn(time.Now(), time.Now().UnixMilli())
			require.True(t, carriedOut(clock.Deadline(time.Now(), bound), time.Now().UnixMilli()))
		})
	}
}

func TestDeadlineOfThePast(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClock()
		now := time.Now()
		require.Equal(t, Deadline{NotAfter: now.UnixMilli(), Ahead: 1000}, c.Deadline(now, -time.Hour))
		require.Equal(t, Deadline{NotAfter: now.UnixMilli(), Ahead: 1000}, c.Deadline(now, 999*time.Microsecond))
	})
}
