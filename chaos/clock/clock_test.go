package clock_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/chaos/clock"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A reading is what a child sees of its clocks.
type reading struct {
	Wall, Since time.Duration // since the epoch, and since its start
	History     int64
}

func TestMain(m *testing.M) {
	if os.Getenv("LATCHKEY_CLOCK_TEST") != "" {
		read()
		return
	}
	code := m.Run()
	clock.Remove()
	os.Exit(code)
}

// read tells the clocks for each byte of the input.
func read() {
	if err := clock.Child(); err != nil {
		panic(err)
	}
	start := time.Now()
	for {
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
			return
		}
		_ = json.NewEncoder(os.Stdout).Encode(reading{
			Wall: time.Duration(time.Now().UnixNano()), Since: time.Since(start), History: history.Now(),
		})
	}
}

// The clocks of a child can be moved one by one; that of the history cannot.
func TestChild(t *testing.T) {
	if !clock.Movable {
		t.Log("not on this system")
		return
	}
	f, err := clock.NewFile(t.TempDir())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), f.Env(), "LATCHKEY_CLOCK_TEST=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	answers := json.NewDecoder(out)
	start := time.Now()
	ask := func(wall, mono time.Duration) {
		t.Helper()
		require.NoError(t, f.Wall(wall))
		require.NoError(t, f.Mono(mono))
		_, err := in.Write([]byte{'?'})
		require.NoError(t, err)
		var r reading
		require.NoError(t, answers.Decode(&r))
		near := float64(time.Since(start) + 5*time.Second)
		require.InDelta(t, time.Now().UnixNano()+int64(wall), int64(r.Wall), near, "wall clock")
		require.InDelta(t, mono, r.Since, near, "monotonic clock")
		require.InDelta(t, history.Now(), r.History, near, "the clock of the history")
	}
	ask(0, 0)
	ask(time.Minute, 0)
	ask(-10*time.Minute-time.Millisecond, 0)
	ask(0, time.Hour)
	ask(time.Hour, 2*time.Hour)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

// The clock of a server can be moved, and stays where it is over a restart.
func TestServer(t *testing.T) {
	var s *redistest.Server
	require.NoError(t, clock.Servers(func() { s = redistest.Start(t) }))
	off := func() float64 {
		reply := s.Do(t, "TIME")
		var sec int64
		_, err := fmt.Sscan(reply[0], &sec)
		require.NoError(t, err)
		return time.Until(time.Unix(sec, 0)).Seconds()
	}
	require.InDelta(t, 0, off(), 5)
	require.NoError(t, clock.Of(s).Wall(time.Minute))
	require.InDelta(t, 60, off(), 5)
	s.Restart(t)
	require.InDelta(t, 60, off(), 5)
	require.NoError(t, clock.Of(s).Wall(-time.Hour))
	require.InDelta(t, -3600, off(), 5)
}
