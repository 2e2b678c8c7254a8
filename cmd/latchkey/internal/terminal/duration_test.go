package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0.2": 200 * time.Millisecond, "3": 3 * time.Second, ".5": 500 * time.Millisecond,
		"200ms": 200 * time.Millisecond, "1m30s": 90 * time.Second, "1e2": 100 * time.Second,
	} {
		d, err := parseDuration(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "x", "-1", "-1s", "nan", "inf", "1e30", "0x", "1 s"} {
		_, err := parseDuration(text)
		assert.Error(t, err, text)
	}
}

// What people type never ends the command with a panic.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"", "0.2", "1m30s", "-1", "NaN", "1e300"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); err == nil {
			assert.False(t, d < 0, "%q", text)
		}
	})
}
