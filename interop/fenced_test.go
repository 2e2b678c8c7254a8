package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

// testFenced: each acquisition has a greater token than the one before, whichever
// side it is on, re-entry included.
func testFenced(t *testing.T, r *rig) {
	if !r.version.since(hasFenced) {
		return
	}
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		name := r.name(t, "redisson_lock_token:{%s}")
		l, th := rlock.New(r.client(t), name, rlock.Fenced()), r.j.thread()
		last := int64(0)
		next := func(token int64, who string) {
			t.Helper()
			require.Greater(t, token, last, who)
			last = token
			known, err := l.Token(soon(t))
			require.NoError(t, err)
			require.Equal(t, token, known, "Go's Token after %s", who)
			require.Equal(t, token, th.number(t, "token", "fenced", name), "Java's getToken after %s", who)
		}
		for range 5 {
			for range 2 {
				next(th.number(t, "locktoken", "fenced", name), "Java")
			}
			th.do(t, "unlock", "fenced", name)
			th.do(t, "unlock", "fenced", name)

			ctx := latchkey.WithHolder(soon(t))
			for range 2 {
				h, err := l.Lock(ctx)
				require.NoError(t, err)
				next(h.Token(), "Go")
			}
			require.NoError(t, l.Unlock(ctx))
			require.NoError(t, l.Unlock(ctx))
		}
	})
}
