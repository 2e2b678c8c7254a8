package watchdog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is the instant at which the clocks say these times since the epoch.
func at(mono, wall time.Duration) watchdog.Instant {
	return watchdog.NewInstant(mono, epoch.Add(wall))
}

func TestWindowMargins(t *testing.T) {
	for _, c := range []struct{ lease, want time.Duration }{
		{30 * time.Second, 29698 * time.Millisecond},
		{time.Second, 988 * time.Millisecond},
		{100 * time.Millisecond, 97 * time.Millisecond},
		{time.Millisecond, -1010 * time.Microsecond}, // nothing to believe in
		{0, -2 * time.Millisecond},
	} {
		require.Equal(t, c.want, watchdog.NewWindow(at(5, 7), c.lease).Remaining(at(5, 7)), c.lease)
	}
}

// MinLease is the least lease in milliseconds of which anything is believed in.
func TestMinLease(t *testing.T) {
	left := func(lease time.Duration) time.Duration {
		return watchdog.NewWindow(at(0, 0), lease).Remaining(at(0, 0))
	}
	require.Positive(t, left(watchdog.MinLease))
	require.LessOrEqual(t, left(watchdog.MinLease-time.Millisecond), time.Duration(0))
	require.Zero(t, watchdog.MinLease%time.Millisecond)
}

func TestWindowIsOverByEitherClock(t *testing.T) {
	const s = time.Second
	w := watchdog.NewWindow(at(0, 0), 30*s)
	left := w.Remaining(at(0, 0))
	for _, c := range []struct {
		name       string
		mono, wall time.Duration
		passed     time.Duration
	}{
		{"both agree", 7 * s, 7 * s, 7 * s},
		{"the machine slept for a minute", 0, 60 * s, 60 * s},
		{"the machine slept for a while", 3 * s, 10 * s, 10 * s},
		{"the wall was set back", 29 * s, -3600 * s, 29 * s},
		{"the wall stands still", 29 * s, 0, 29 * s},
		{"the wall was set back after the end", 60 * s, 0, 60 * s},
	} {
		require.Equal(t, left-c.passed, w.Remaining(at(c.mono, c.wall)), c.name)
	}
	require.Negative(t, w.Remaining(at(0, 60*s)))
	require.Negative(t, w.Remaining(at(60*s, -60*s)))
}

func TestWindowLater(t *testing.T) {
	const s = time.Second
	short, long := watchdog.NewWindow(at(0, 0), 10*s), watchdog.NewWindow(at(5*s, 5*s), 6*s)
	now := at(5*s, 5*s)
	require.Equal(t, long, short.Later(long, now))
	require.Equal(t, long, long.Later(short, now))
	require.Equal(t, short, short.Later(watchdog.Window{}, now), "no window at all is over")
	// Set while the wall was an hour ahead: by the wall it goes on for long.
	odd := watchdog.NewWindow(at(4*s, 3604*s), 6*s)
	require.Equal(t, long, long.Later(odd, now), "the monotonic clock says that it is over earlier")
}

func TestInstantAdd(t *testing.T) {
	const s = time.Second
	a := at(1*s, 100*s).Add(5 * s)
	require.Equal(t, at(6*s, 105*s), a)
	require.Equal(t, 5*s, a.Since(at(1*s, 100*s)))
	require.Equal(t, -5*s, at(1*s, 100*s).Since(a))
	require.Equal(t, 7*s, at(8*s, 0).Since(at(1*s, 100*s)))
}

func TestSystemClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now := watchdog.SystemClock()
		first := now()
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, now().Since(first))
		require.Equal(t, first.Add(time.Hour), now(), "both clocks have moved")
	})
}
