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

// No text but that of a client which could read the proof, or the word, gives anything.
func FuzzGift(f *testing.F) {
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { _ = rdb.Close() })
	e := New(rdb, Config{ID: "c"})
	queue, plain := &Spec{Key: "f", Line: "f", Queue: struct{ Queue }{}}, &Spec{Key: "f", Line: "f"}
	for _, m := range []string{"", "0", "+", "+1 15000", "+1 15000 1 ", "+1 15000 1 " + strings.Repeat("0", 40), "+ + +", "+1  2 3 4", "+1 15000 1 1-0", "+1 15000 1 -"} {
		f.Add(m, uint64(7), int64(15000))
	}
	f.Fuzz(func(t *testing.T, message string, number uint64, ms int64) {
		require.False(t, e.told(queue, message), "%q", message)
		require.False(t, e.told(plain, message), "%q", message)
		request := fmt.Sprintf("%d %d ", number, ms)
		text := request + "99 "
		sum := sha1.Sum([]byte("f " + text + e.proof)) //nolint:gosec // see above
		word := string(e.appendWord(nil, "f", []byte(request), number))
		for _, tag := range []string{fmt.Sprintf("%x", sum), word} {
			g, ok := e.readGift("+" + text + tag)
			good := number <= math.MaxInt64 && ms >= 0 && ms <= MaxLease.Milliseconds()
			require.Equal(t, good, ok)
			if !good {
				continue
			}
			require.Equal(t, gift{fmt.Sprint("c:", number), time.Duration(ms) * time.Millisecond, 99, 0, text, tag}, g)
			require.Equal(t, tag != word, e.proves(queue, g))
			require.Equal(t, tag == word, e.said(plain, g))
			if message == "" {
				continue
			}
			if g, ok = e.readGift("+" + text + tag + message); ok {
				require.False(t, e.proves(queue, g) || e.said(plain, g), "%q", message)
			}
		}
		other := string(e.appendWord(nil, "f", []byte(request), number+1))
		require.NotEqual(t, word, other, "the same word twice")
		for _, g := range []gift{
			{text: fmt.Sprintf("%d %d 99 ", number+1, ms), tag: word}, {text: fmt.Sprintf("%d %d 99 ", number, ms+1), tag: word},
		} {
			require.False(t, e.said(plain, g), "%+v", g)
		}
		require.False(t, e.said(&Spec{Key: "g"}, gift{text: text, tag: word}), "that of another lock")
	})
}
