package engine

import (
	"crypto/sha1" //nolint:gosec // it is what the scripts have
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// No text but that of a client which could read the proof, or the nonce, gives anything.
func FuzzGrantMessage(f *testing.F) {
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { _ = rdb.Close() })
	e := New(rdb, Config{ID: "c"})
	queue, plain := &Spec{Key: "f", Line: "f", Queue: struct{ Queue }{}}, &Spec{Key: "f", Line: "f"}
	for _, m := range []string{"", "0", "+", "+1 15000", "+1 15000 1 ", "+1 15000 1 " + strings.Repeat("0", 40), "+ + +", "+1  2 3 4", "+1 15000 1 1-0", "+1 15000 1 -"} {
		f.Add(m, uint64(7), int64(15000))
	}
	f.Fuzz(func(t *testing.T, message string, number uint64, ms int64) {
		require.False(t, e.receive(queue, message), "%q", message)
		require.False(t, e.receive(plain, message), "%q", message)
		request := fmt.Sprintf("%d %d ", number, ms)
		text := request + "99 "
		sum := sha1.Sum([]byte("f " + text + e.proof)) //nolint:gosec // see above
		nonce := string(e.appendNonce(nil, "f", []byte(request), number))
		for _, tag := range []string{fmt.Sprintf("%x", sum), nonce} {
			g, ok := e.parseGrantMessage("+" + text + tag)
			good := number <= math.MaxInt64 && ms >= 0 && ms <= MaxLease.Milliseconds()
			require.Equal(t, good, ok)
			if !good {
				continue
			}
			require.Equal(t, grantMessage{fmt.Sprint("c:", number), time.Duration(ms) * time.Millisecond, 99, 0, text, tag}, g)
			require.Equal(t, tag != nonce, e.proves(queue, g))
			require.Equal(t, tag == nonce, e.madeNonce(plain, g))
			if message == "" {
				continue
			}
			if g, ok = e.parseGrantMessage("+" + text + tag + message); ok {
				require.False(t, e.proves(queue, g) || e.madeNonce(plain, g), "%q", message)
			}
		}
		other := string(e.appendNonce(nil, "f", []byte(request), number+1))
		require.NotEqual(t, nonce, other, "the same nonce twice")
		for _, g := range []grantMessage{
			{text: fmt.Sprintf("%d %d 99 ", number+1, ms), tag: nonce}, {text: fmt.Sprintf("%d %d 99 ", number, ms+1), tag: nonce},
		} {
			require.False(t, e.madeNonce(plain, g), "%+v", g)
		}
		require.False(t, e.madeNonce(&Spec{Key: "g"}, grantMessage{text: text, tag: nonce}), "that of another lock")
	})
}
