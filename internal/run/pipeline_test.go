package run

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
	"github.com/latchkey-go/latchkey/lua"
)

func pipedCmd(n int) redis.Cmder { return redis.NewCmd(context.Background(), "cmd", n) }

// held is a sender that keeps each pipeline until it is let go.
type heldSender struct {
	begun chan []redis.Cmder
	let   chan error
}

func newHeldSender() *heldSender {
	return &heldSender{begun: make(chan []redis.Cmder, 100), let: make(chan error)}
}

func (h *heldSender) send(cmds []redis.Cmder) {
	h.begun <- cmds
	err := <-h.let
	for _, c := range cmds {
		c.SetErr(err)
	}
}

// busy is a batcher with so many commands under way that the next are sent
// together.
func busy() (*heldSender, *batcher) {
	h := newHeldSender()
	p := &batcher{carry: h.send, underway: new(atomic.Int32)}
	p.underway.Store(pipeFrom + 1)
	return h, p
}

// join adds a command as send does. ok says whether it goes with others.
func join(p *batcher, cmd redis.Cmder) (done <-chan error, ok bool) {
	if !p.busy() {
		return nil, false
	}
	j := p.add(cmd, nil)
	if j == nil {
		return nil, false
	}
	return j.done, true
}

func TestPipeIsLeftAloneByFew(t *testing.T) {
	p := &batcher{underway: new(atomic.Int32)}
	p.underway.Store(pipeFrom)
	assert.False(t, p.busy())
	p.underway.Add(1)
	assert.True(t, p.busy())
}

func TestPipeGathersWhileOneIsUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, p := busy()
		first, ok := join(p, pipedCmd(0))
		require.True(t, ok)
		assert.Len(t, <-h.begun, 1)
		p.underway.Store(0) // few again; but one that is under way gathers all
		var dones []<-chan error
		for i := range 10 {
			done, ok := join(p, pipedCmd(i))
			require.True(t, ok)
			dones = append(dones, done)
		}
		synctest.Wait()
		assert.Empty(t, h.begun, "a second pipeline was begun")
		h.let <- nil
		require.NoError(t, <-first)
		assert.Len(t, <-h.begun, 10)
		fails := errors.New("connection reset")
		h.let <- fails
		for _, done := range dones {
			assert.Equal(t, fails, <-done)
		}
		synctest.Wait()
		time.Sleep(pipeAvoid)
		_, ok = join(p, pipedCmd(1))
		assert.False(t, ok, "the batcher did not come to rest")
	})
}

// One pipeline that hangs on a dead connection holds up nobody else for longer
// than pipeLate.
func TestPipeGoesRoundOneThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, p := busy()
		_, ok := join(p, pipedCmd(0))
		require.True(t, ok)
		<-h.begun
		for i := range 20 * pipes {
			time.Sleep(pipeLate + time.Millisecond)
			_, ok := join(p, pipedCmd(i))
			require.True(t, ok)
		}
		synctest.Wait()
		assert.Len(t, h.begun, pipes-1, "pipelines under way besides the first")
		for len(h.begun) > 0 || p.sending.Load() > 0 {
			h.let <- nil
			synctest.Wait()
			for len(h.begun) > 0 {
				<-h.begun
			}
		}
	})
}

// Nor when nobody else comes: all callers may wait behind it.
func TestPipeGoesRoundOneThatHangsThoughNobodyComes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, p := busy()
		hangs, ok := join(p, pipedCmd(0))
		require.True(t, ok)
		<-h.begun
		start := time.Now()
		behind, ok := join(p, pipedCmd(1))
		require.True(t, ok)
		<-h.begun
		assert.LessOrEqual(t, time.Since(start), 2*pipeLate+time.Millisecond)
		h.let <- nil
		h.let <- nil
		require.NoError(t, <-behind)
		require.NoError(t, <-hangs)
		time.Sleep(time.Minute) // the look-out comes to rest too
		synctest.Wait()
		assert.False(t, p.looking)
		assert.Zero(t, p.sending.Load())
	})
}

// What fails fails for all, so for a while everybody tries alone.
func TestPipeIsAvoidedAfterAFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, p := busy()
		done, ok := join(p, pipedCmd(0))
		require.True(t, ok)
		<-h.begun
		h.let <- errors.New("connection reset")
		require.Error(t, <-done)
		synctest.Wait()
		_, ok = join(p, pipedCmd(1))
		assert.False(t, ok)
		time.Sleep(pipeAvoid)
		_, ok = join(p, pipedCmd(2))
		assert.True(t, ok)
		h.let <- nil
		synctest.Wait()
	})
}

func TestPipeIsBoundedInDepth(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, p := busy()
		sizes := map[int]int{}
		for i := range 3*pipeDepth + 1 {
			_, ok := join(p, pipedCmd(i))
			require.True(t, ok)
			if i == 0 {
				synctest.Wait() // the first is under way alone
			}
		}
		for range 100 {
			synctest.Wait()
			for len(h.begun) > 0 {
				sizes[len(<-h.begun)]++
			}
			if p.sending.Load() == 0 {
				break
			}
			h.let <- nil
		}
		sum := 0
		for n, times := range sizes {
			assert.LessOrEqual(t, n, pipeDepth)
			sum += n * times
		}
		assert.Equal(t, 3*pipeDepth+1, sum, fmt.Sprint(sizes))
	})
}

// A request in a batch takes no longer than its options say, whatever becomes of the
// pipeline.
func TestBatchEndsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHeldSender()
		rn := New(redis.NewClient(&redis.Options{
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}), Config{})
		rn.batcher.carry = h.send
		rn.underway.Store(pipeFrom + 1)
		began := time.Now()
		_, err := rn.EvalMany(t.Context(), Options{Within: 50 * time.Millisecond}, &BatchRequest{Script: lua.RLockAcquireMany})
		require.True(t, IsSilence(err), "%v", err)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
		<-h.begun
		h.let <- errors.New("connection reset")
		synctest.Wait()
	})
}
