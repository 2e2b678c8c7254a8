package names_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/names"
)

// TestSideKeys: the table of wire §1.2, byte for byte.
func TestSideKeys(t *testing.T) {
	const prefix, suffix = "redisson_lock__channel", "timeout"
	for name, want := range map[string][2]string{
		"foo":   {"redisson_lock__channel:{foo}", "{foo}:timeout"},
		"a{b}":  {"redisson_lock__channel:a{b}", "a{b}:timeout"},
		"{b}a":  {"redisson_lock__channel:{b}a", "{b}a:timeout"},
		"a{b":   {"redisson_lock__channel:a{b", "a{b:timeout"},
		"a}b":   {"redisson_lock__channel:{a}b}", "{a}b}:timeout"},
		"{}a":   {"redisson_lock__channel:{}a", "{}a:timeout"},
		"a{}{b": {"redisson_lock__channel:a{}{b", "a{}{b:timeout"},
		"":      {"redisson_lock__channel:{}", "{}:timeout"},
	} {
		require.Equal(t, want[0], names.Prefixed(prefix, name), "Prefixed of %q", name)
		require.Equal(t, want[1], names.Suffixed(name, suffix), "Suffixed of %q", name)
	}
	require.Equal(t, "redisson_lock_token:{foo}", names.Prefixed("redisson_lock_token", "foo"))
	require.Equal(t, "latchkey_label:{foo}:id:1", names.Label("foo", "id:1"))
	require.Equal(t, "latchkey_label:a{b}:id:1", names.Label("a{b}", "id:1"))
}

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":            12739, // Redis Cluster's specification: 0x31C3
		"foo":                  12182,
		"bar":                  5061,
		"hello":                866,
		"":                     0,
		"{user1000}.following": names.Slot("user1000"),
		"{user1000}.followers": names.Slot("user1000"),
		"foo{bar}":             5061,
		"{foo}{bar}":           12182,
		"x{foo":                names.Slot("x{foo"),
	} {
		require.Equal(t, want, names.Slot(key), "Slot(%q)", key)
	}
	require.NotEqual(t, names.Slot("bar"), names.Slot("foo{}{bar}"), "an empty tag is none: the whole key counts")
	require.Equal(t, names.Slot("{bar"), names.Slot("foo{{bar}}zap"), "from the first { to the first } behind it")
}

// TestSideKeysLieInTheSlotOfTheName: the table of wire §1.2 for clusters.
func TestSideKeysLieInTheSlotOfTheName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a{b}": true, "{b}a": true, "orders:42": true, "a b": true, "a{b}{": true,
		"a{b": false, "a}b": false, "{}a": false, "a{}{b}": false,
	} {
		require.Equal(t, want, names.Slot(names.Prefixed("redisson_lock_token", name)) == names.Slot(name), "Prefixed of %q", name)
		require.Equal(t, want, names.Slot(names.Suffixed(name, "timeout")) == names.Slot(name), "Suffixed of %q", name)
	}
}

func TestCheckName(t *testing.T) {
	require.ErrorContains(t, names.Check(""), "the name is empty")
	for _, name := range []string{" ", "\x00", "\n", "{", "{}", strings.Repeat("x", 1<<20)} {
		require.NoError(t, names.Check(name), "%.10q", name)
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"foo", "a{b}", "a{b", "a}b", "{}a", "a{}{b}", "}{", "", "\x00", "日本{"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		slot := names.Slot(name)
		require.True(t, 0 <= slot && slot < 16384, "Slot(%q) is %d", name, slot)
		for _, key := range []string{names.Prefixed("p", name), names.Suffixed(name, "s")} {
			require.Contains(t, key, name, "the name is kept as it is")
			tagged := strings.Contains(name, "{")
			require.Equal(t, !tagged, strings.Contains(key, "{"+name+"}") && !strings.Contains(name, "{"), "%q of %q", key, name)
			// Where nothing in the name meddles with the tag, the side keys lie
			// beside the name.
			if !strings.ContainsAny(name, "{}") && name != "" {
				require.Equal(t, slot, names.Slot(key), "slots of %q and %q", name, key)
			}
		}
	})
}
