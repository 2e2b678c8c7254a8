package engine

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/internal/lifecycle"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// A wait that is over while Redis does not answer is not taken for one in which
// somebody else has the thing.
func TestTimeUpSaysWhy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := &Engine{Runner: run.New(nil, run.Config{}), cfg: Config{AnswerTimeout: AnswerTimeout}}
		e.gate = lifecycle.NewGate()
		e.cleanup = lifecycle.NewCleanup(e.gate)
		c := newAttempt(t.Context(), &Spec{engine: e}, &LockConfig{Wait: time.Second})
		c.bounded = true
		c.begin()
		defer c.stop()
		ans, err := c.failure(time.Now(), io.EOF)
		require.NoError(t, err)
		require.Positive(t, ans.Again)
		err = c.pause(t.Context(), wait.Answer{Again: time.Minute})
		require.ErrorIs(t, err, ErrNotAcquired)
		require.ErrorIs(t, err, io.EOF)

		c.failing = time.Time{} // it has asked again, without an answer yet
		require.ErrorIs(t, c.timeUp(), errNoAnswer)
		c.refused = true
		require.Equal(t, ErrNotAcquired, c.timeUp())

		behind := newAttempt(t.Context(), &Spec{engine: e}, &LockConfig{Wait: time.Second})
		require.ErrorIs(t, behind.timeUp(), errNoAnswer, "of those that ask, none has an answer")
		e.answers()
		require.Equal(t, ErrNotAcquired, behind.timeUp())
	})
}
