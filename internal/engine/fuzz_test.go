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

// allKeys returns everything that stands in Redis for one name, the object first.
func allKeys(e *Engine, name string) []string {
	const holder = "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17"
	keys := []string{
		name, Suffixed(name, "timeout"), Suffixed(name, holder) + ":rwlock_timeout:2",
		LabelKey(name, holder), TokenKey(name), e.LatchChannel(name), ClaimKey(name, &Ticket{ID: holder}),
		PermitLabelKey(name, "0123456789abcdef"),
	}
	for _, s := range sides {
		keys = append(keys, Prefixed(s.prefix, name))
	}
	return keys
}

// In a cluster a name either has all its keys in one slot, or is refused before
// anything is sent. Two names share keys only as Redisson's do: "x" and "{x}".
func FuzzKeys(f *testing.F) {
	for _, name := range []string{"orders:42", "a{b}", "{b}a", "a{b", "a}b", "{}a", "a{}{b}", "{{a}}", "}{", "\x00", "a:1:timeout", "{x}:timeout"} {
		f.Add(name, "b")
		f.Add("{"+name+"}", name)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{})
	f.Cleanup(func() { _ = rdb.Close() })
	e := New(rdb, Config{})
	f.Fuzz(func(t *testing.T, a, b string) {
		if CheckName(a) != nil || CheckName(b) != nil {
			return
		}
		as, bs := allKeys(e, a), allKeys(e, b)
		if err := checkSlots(a, as); err == nil {
			for _, k := range as {
				require.Equal(t, Slot(a), Slot(k), "%q of %q", k, a)
			}
		} else {
			require.Contains(t, err.Error(), "hash tag")
			require.True(t, strings.ContainsAny(a, "{}"), "%q is refused", a)
		}
		if a != b && a != "{"+b+"}" && b != "{"+a+"}" {
			for i := range as {
				require.NotEqual(t, as[i], bs[i], "of %q and %q", a, b)
			}
		}
		for _, k := range append(as, bs...) {
			Owner(k) // says something
		}
	})
}

// No text but that of a client which could read the proof gives anything.
func FuzzGift(f *testing.F) {
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { _ = rdb.Close() })
	e := New(rdb, Config{ID: "c"})
	s := &Spec{Key: "f", Line: "f"}
	for _, m := range []string{"", "0", "+", "+1 15000", "+1 15000 1 ", "+1 15000 1 " + strings.Repeat("0", 40), "+ + +", "+1  2 3 4"} {
		f.Add(m, uint64(7), int64(15000))
	}
	f.Fuzz(func(t *testing.T, message string, number uint64, ms int64) {
		require.False(t, e.told(s, message), "%q", message)
		text := fmt.Sprintf("%d %d 99 ", number, ms)
		sum := sha1.Sum([]byte("f " + text + e.proof)) //nolint:gosec // see above
		g, ok := e.readGift(s, fmt.Sprintf("+%s%x", text, sum))
		good := number <= math.MaxInt64 && ms >= 0 && ms <= MaxLease.Milliseconds()
		require.Equal(t, good, ok)
		if good {
			require.Equal(t, gift{fmt.Sprint("c:", number), time.Duration(ms) * time.Millisecond, 99, 0}, g)
		}
		if message != "" {
			_, ok = e.readGift(s, fmt.Sprintf("+%s%x%s", text, sum, message))
			require.False(t, ok)
		}
	})
}
