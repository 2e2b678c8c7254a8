package idem

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the field says, a key is printable, short and not empty; in quotes it means
// the same; and nothing panics.
func FuzzKey(f *testing.F) {
	for _, s := range []string{
		"", "a", `"a"`, `"a b"`, `"\"\\"`, `"\`, `"a"b`, `"a";p`, "a,b", "8e03978e-40d5-43dd-bc93-6894a57f9324", "a=b/+", " \t a ", `"` + strings.Repeat("x", 256) + `"`,
		"ä", "\x00", "a\x7f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := keyOf(http.Header{header: {s}})
		if err != nil {
			return
		}
		require.NotEmpty(t, key)
		require.LessOrEqual(t, len(key), maxKey)
		for _, c := range []byte(key) {
			require.True(t, c >= ' ' && c <= '~', "%q", key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := keyOf(http.Header{header: {quoted}})
		require.NoError(t, err)
		require.Equal(t, key, again)
		if !strings.Contains(s, `"`) {
			require.Equal(t, strings.Trim(s, " \t"), key)
		}
	})
}

// What is encoded is decoded, and whatever stands in Redis, nothing panics.
func FuzzResponse(f *testing.F) {
	for _, r := range []*response{
		{status: 200},
		{status: 201, header: http.Header{"A": {"1", ""}, "": nil, "B": {}}, body: []byte("body")},
		{status: 202, large: true},
	} {
		b := r.encode()
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{version, 0, 200, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{version + 1, 0, 200, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, r.status, 200)
		again, err := decode(r.encode())
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func TestEncode(t *testing.T) {
	r := &response{status: 201, header: http.Header{"Content-Type": {"text/plain"}, "X": {"1", "2"}, "Y": {}}, body: []byte("body\x00\n")}
	got, err := decode(r.encode())
	require.NoError(t, err)
	require.Equal(t, r, got)
	require.Equal(t, "\x01\x00\xc9\x01\x03\x0cContent-Type\x01\x0atext/plain\x01X\x02\x011\x012\x01Y\x00body\x00\n", string(r.encode()),
		"a change breaks what other versions have kept")
	for _, bad := range []string{"", "\x01", "\x02\x00\xc8\x01\x00", "\x01\x02\xc8\x01\x00", "\x01\x00\x63\x00", "\x01\x00\xe8\x07\x00", "\x01\x00\xc8\x01", "\x01\x00\xc8\x01\x01\x05A", "\x01\x00\xc8\x01\x01\x01A\x01\x02x"} {
		_, err := decode([]byte(bad))
		require.ErrorIs(t, err, errStored, "%q", bad)
	}
}
