package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// Of what is given back elsewhere, or never, nothing stays for ever.
func TestSharesOfWhatNeverComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const slice = 10 * time.Millisecond
		var ss shares
		for i := range 1000 {
			ss.add(fmt.Sprint("line ", i), 3, time.Now().Add(slice))
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, len(ss.m), 2*sharesRoom)
		now := time.Now()
		require.True(t, ss.keep("line 999", 3, now))
		require.True(t, ss.keep("line 995", 3, now))
		for i := range 1000 {
			ss.drop(fmt.Sprint("line ", i), 3)
		}
		require.Empty(t, ss.m)
	})
}
