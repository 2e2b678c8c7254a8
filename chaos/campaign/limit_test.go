package campaign

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// TestLimit: a failover that nobody meant gives the clients more time, not for ever.
func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		what  string
		every time.Duration // a failover
		until time.Duration // the last one
		again int
	}{
		{"none", time.Hour, 0, 0},
		{"one", 10 * time.Second, 10 * time.Second, 1},
		{"two at once", 10 * time.Second, 20 * time.Second, 1},
		{"two apart", 20 * time.Second, 40 * time.Second, 2},
		{"no end", time.Second, time.Hour, mostAgain},
	} {
		t.Run(tt.what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				start := time.Now()
				l := newLimit(func() int { return 7 + int(min(time.Since(start), tt.until)/tt.every) })
				for !l.over() {
					time.Sleep(5 * time.Millisecond)
				}
				want := time.Duration(1+tt.again) * recovery
				require.InDelta(t, want, time.Since(start), float64(time.Second))
				require.Equal(t, tt.again, l.again)
			})
		})
	}
}
