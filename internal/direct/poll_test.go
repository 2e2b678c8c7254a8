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
				p.end(true, took)
			}
		}
		return polled
	}
	require.Equal(t, 7*300, commands(8*300, soon))
	require.Equal(t, 1, commands(2, late))
	require.Equal(t, 1, commands(4, late))
	polled := commands(8+16+32+64+128+256, late)
	require.LessOrEqual(t, polled, 6)
	require.GreaterOrEqual(t, polled, 5, "one may be of those that sleep in any case")
	polled = commands(100*256, late)
	require.LessOrEqual(t, polled, 100)
	require.GreaterOrEqual(t, polled, 80)
	commands(300, soon)
	require.Equal(t, 7*300, commands(8*300, soon), "the server is near again")

	require.True(t, p.begin())
	require.False(t, p.begin(), "one at a time")
	p.end(true, soon)
	require.True(t, p.begin())
	p.end(true, soon)

	p.sleepers.Add(2)
	require.Zero(t, commands(100, soon), "nobody would wake those who sleep")
	p.sleepers.Add(-1)
	require.Equal(t, 7, commands(8, soon), "one who sleeps is woken")
	p.sleepers.Add(-1)
	require.Equal(t, 7, commands(8, soon))

	require.True(t, p.begin())
	p.end(false, 0) // where time does not pass
	require.False(t, p.begin(), "nothing has come")
}
