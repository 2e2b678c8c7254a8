package handover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// A spoken is a Hold that calls then when it has spoken for its holder.
type spoken struct {
	engine.Held
	then func()
}

func (h *spoken) Speaks(e *engine.Engine, s *engine.Spec) (holder uint64, ok bool) {
	holder, ok = h.Held.Speaks(e, s)
	if f := h.then; f != nil {
		h.then = nil
		f()
	}
	return holder, ok
}

// Of two who give the same hold back one is too late, and does not give back that of the
// waiter who has the holder from then on.
func TestHandOverMeetsAnUnlock(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		ctx := engine.WithHold(p.Context(), &spoken{engine.HeldOf(p.hold), func() { p.next() }})
		require.ErrorIs(p, p.l.Unlock(ctx), latchkey.ErrNotHeld)
		require.NoError(p, p.hold.Context().Err())
		p.showsHolder("1")
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}

// What HoldAtLeast asks for a hold that has been handed over does not keep the lock closed
// after the next one.
func TestHandOverThenStayClosed(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		before := engine.HeldOf(p.hold)
		p.next()
		require.NoError(p, before.StayClosed(p.Context(), time.Minute))
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}
