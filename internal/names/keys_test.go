package names_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The user of docs/security.md may use all that stands beside an object. Tests whose
// names may be anything do not show it: their user has all keys.
func TestSidesAreDocumented(t *testing.T) {
	rights, err := redistest.Documented("app:")
	require.NoError(t, err)
	for _, s := range names.Sides() {
		mark := "~"
		if s.Side == names.SideWakeUps {
			mark = "&"
		}
		if s.Prefix != "latchkey_latch_channel" { // only for names that have a tag
			assert.Contains(t, rights.Base, mark+s.Prefix+":{app:*")
		}
		assert.Contains(t, rights.OwnTags, mark+s.Prefix+":app:*")
	}
	assert.Contains(t, rights.Base, "&"+names.LatchChannelPrefix+"app:*")
}

// allKeys returns everything that stands in Redis for one name, the object first.
func allKeys(name string) []string {
	const holder = "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51:17"
	keys := []string{
		name, names.Suffixed(name, "timeout"), names.Suffixed(name, holder) + ":rwlock_timeout:2",
		names.Label(name, holder), names.Token(name), names.LatchChannel(name, true), names.Claim(name, holder), names.Waits(name, holder),
		names.PermitLabel(name, "0123456789abcdef"),
	}
	for _, s := range names.Sides() {
		keys = append(keys, names.Prefixed(s.Prefix, name))
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
	f.Fuzz(func(t *testing.T, a, b string) {
		if names.Check(a) != nil || names.Check(b) != nil {
			return
		}
		as, bs := allKeys(a), allKeys(b)
		if err := names.CheckSlots(a, as); err == nil {
			for _, k := range as {
				require.Equal(t, names.Slot(a), names.Slot(k), "%q of %q", k, a)
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
			names.Owner(k) // says something
		}
	})
}
