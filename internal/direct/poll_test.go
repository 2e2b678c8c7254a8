package direct

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Answers that do not come soon are polled for ever more seldom, and those that do
// nearly always.
func TestPollingKnowsWhereItPays(t *testing.T) {
	const soon, late = pollFor - 1, pollFor
	var p polling
	commands := func(n int, took time.Duration) (polled int) {
		for range n {
			if p.begin() {
				polled++
				p.end(took)
			}
		}
		return polled
	}
	require.Equal(t, 31*300, commands(32*300, soon))
	require.Equal(t, 1, commands(2, late))
	require.Equal(t, 1, commands(4, late))
	require.Equal(t, 6, commands(8+16+32+64+128+256, late))
	polled := commands(100*256, late)
	require.LessOrEqual(t, polled, 100)
	require.GreaterOrEqual(t, polled, 90)
	commands(300, soon)
	require.Equal(t, 31*300, commands(32*300, soon), "the server is near again")

	require.True(t, p.begin())
	require.False(t, p.begin(), "one at a time")
	p.end(soon)
	require.True(t, p.begin())
	p.end(soon)
}
