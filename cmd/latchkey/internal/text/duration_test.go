package text

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
