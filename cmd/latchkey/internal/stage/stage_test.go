package stage

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// One who competes for what each keeps for long has a turn after all the others have
// had theirs.
func TestCompeteForWhatIsKept(t *testing.T) {
	const keeps = Grace / 8 // so that eleven of them take longer than it
	compete := func(t *testing.T, turn time.Duration) (turns int, err error) {
		st := New("", nil, &Flags{Duration: 100 * time.Millisecond, Workers: 12, Clients: 1})
		st.Turn = turn
		one := make(chan struct{}, 1)
		err = st.Compete(t.Context(), func(ctx context.Context, _ int) error {
			select {
			case one <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			turns++
			time.Sleep(keeps)
			<-one
			return nil
		})
		return turns, err
	}
	bubble.Test(t, func(t *testing.T) {
		turns, err := compete(t, keeps)
		require.NoError(t, err)
		assert.Equal(t, 12, turns)
		_, err = compete(t, 0)
		assert.ErrorIs(t, err, errNoProgress)
	})
}
