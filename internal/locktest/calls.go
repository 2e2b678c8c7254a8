package locktest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/lua"
)

// Must returns a function that returns the hold of a successful acquire and
// fails the test otherwise.
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

// MustUnlock unlocks h, which must still be held.
func MustUnlock(t testing.TB, h *latchkey.Hold) {
	t.Helper()
	require.NoError(t, h.Unlock(t.Context()))
}

// An Outcome is the result of an acquire on a goroutine of its own, and its
// time.
type Outcome struct {
	Hold *latchkey.Hold
	Err  error
	At   time.Time
}

// Unpack returns the results of the acquire.
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

// Within returns the value of ch, which must come within d.
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

// Runs reports whether a command with these arguments runs script.
func Runs(args []string, script *lua.Script) bool {
	switch strings.ToLower(args[0]) {
	case "evalsha":
		return args[1] == script.SHA
	case "eval":
		return args[1] == script.Source
	}
	return false
}
