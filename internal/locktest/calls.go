package locktest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/lua"
)

// Must returns a function that returns the hold of a call, which must have got it.
func Must(t testing.TB) func(*latchkey.Hold, error) *latchkey.Hold {
	return func(h *latchkey.Hold, err error) *latchkey.Hold {
		t.Helper()
		require.NoError(t, err)
		return h
	}
}

// MustLock locks l.
func MustLock(t testing.TB, l latchkey.Locker, opts ...latchkey.LockOption) *latchkey.Hold {
	t.Helper()
	h, err := l.Lock(t.Context(), opts...)
	require.NoError(t, err)
	return h
}

// MustUnlock gives h back, which must have been held until now.
func MustUnlock(t testing.TB, h *latchkey.Hold) {
	t.Helper()
	require.NoError(t, h.Unlock(t.Context()))
}

// An Outcome is how an acquire on a goroutine of its own ended, and when.
type Outcome struct {
	Hold *latchkey.Hold
	Err  error
	At   time.Time
}

// Unpack returns what the acquire returned.
func (o Outcome) Unpack() (*latchkey.Hold, error) { return o.Hold, o.Err }

// Later runs an acquire on a goroutine of its own.
func Later(acquire func() (*latchkey.Hold, error)) <-chan Outcome {
	ch := make(chan Outcome, 1)
	go func() {
		h, err := acquire()
		ch <- Outcome{h, err, time.Now()}
	}()
	return ch
}

// Within returns what must come within d.
func Within[T any](t testing.TB, ch <-chan T, d time.Duration) T {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		require.FailNow(t, "nothing came", "within %v", d)
		panic("not reached")
	}
}

// Runs says whether a command with these arguments is a run of script.
func Runs(args []string, script *lua.Script) bool {
	switch strings.ToLower(args[0]) {
	case "evalsha":
		return args[1] == script.SHA
	case "eval":
		return args[1] == script.Source
	}
	return false
}
