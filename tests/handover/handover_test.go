package handover_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// The slice of the tests in fake time, and a time that is longer.
const (
	passSlice  = 10 * time.Millisecond
	passLonger = 50 * time.Millisecond
	passName   = "a"
	passFuture = time.Minute
)

// A passing is a lock on a client in fake time, with a holder and a line of
// waiters behind it, all of them within the slice of the holder.
type passing struct {
	*testing.T
	env  *redistest.Env
	c    *latchkey.Client
	l    *rlock.Lock
	hold *latchkey.Hold
	line []<-chan locktest.Outcome
}

// inPassing runs f with n waiters; lock options are those of the waiters.
func inPassing(t *testing.T, n int, opts []rlock.Option, f func(p *passing), wait ...latchkey.LockOption) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		p := &passing{T: t, env: env, c: locktest.NewClient(t, env.Redis)}
		p.l = rlock.New(p.c, passName, opts...)
		require.NoError(t, env.Redis.ScriptLoad(t.Context(), lua.RLockPass.Source).Err()) // each run is one command
		// The subscription is there before the slice begins.
		first := locktest.Must(t)(p.l.Lock(t.Context()))
		early := p.wait(t.Context())
		env.Advance(time.Second)
		require.NoError(t, first.Unlock(t.Context()))
		p.hold = (<-early).Hold
		for range n {
			p.line = append(p.line, p.wait(t.Context(), wait...))
		}
		f(p)
		env.Advance(0)
		assert.Zero(t, p.c.Stats().Waiting)
	})
}

func (p *passing) wait(ctx context.Context, opts ...latchkey.LockOption) <-chan locktest.Outcome {
	ch := locktest.Later(func() (*latchkey.Hold, error) { return p.l.Lock(ctx, opts...) })
	synctest.Wait()
	return ch
}

// next gives the present hold back and returns that of the next one in line,
// who must have it at once.
func (p *passing) next() *latchkey.Hold {
	p.Helper()
	start := time.Now()
	require.NoError(p, p.hold.Unlock(p.Context()))
	r := <-p.line[0]
	require.NoError(p, r.Err)
	require.Zero(p, r.At.Sub(start), "time to the next one")
	p.line, p.hold = p.line[1:], r.Hold
	return r.Hold
}

// sent returns how many commands f sends.
func (p *passing) sent(f func()) int64 {
	before := p.env.Commands("")
	f()
	synctest.Wait()
	return p.env.Commands("") - before
}

// shows checks what Redis shows of the lock.
func (p *passing) shows(want map[string]string) {
	p.Helper()
	got := map[string]string{}
	if keys, err := p.env.Mini.HKeys(passName); err == nil {
		for _, k := range keys {
			got[k] = p.env.Mini.HGet(passName, k)
		}
	}
	require.Equal(p, want, got)
}

func (p *passing) showsHolder(count string) {
	p.Helper()
	p.shows(map[string]string{p.hold.HolderID(): count})
}

// In memory Redis hears nothing of it, and the first to come is the first served.
func TestHandOverInMemory(t *testing.T) {
	inPassing(t, 20, nil, func(p *passing) {
		require.Zero(p, p.sent(func() {
			for range 20 {
				h := p.next()
				require.NoError(p, h.Context().Err())
				require.Positive(p, h.Remaining())
				require.Equal(p, 1, p.c.Stats().Held)
				p.showsHolder("1")
			}
		}), "commands sent")
		require.EqualValues(p, 1, p.sent(func() { require.NoError(p, p.hold.Unlock(p.Context())) }), "the last one tells Redis")
		p.shows(map[string]string{})
	})
}

// Redis is right about the holder all the time, and hears nothing of a hold that lasts
// but its renewals.
func TestHandOverIsShown(t *testing.T) {
	inPassing(t, 3, nil, func(p *passing) {
		p.next()
		p.next()
		require.Zero(p, p.sent(func() { p.env.Advance(passLonger) }))
		p.showsHolder("1")
		require.Greater(p, p.env.Mini.TTL(passName), 29*time.Second)
		n, err := p.l.HoldCount(p.hold.Context())
		require.NoError(p, err)
		require.Equal(p, 1, n)
		held, err := p.l.IsHeldBy(p.Context(), p.hold.Holder())
		require.NoError(p, err)
		require.True(p, held)
		info, err := p.c.Info(p.Context(), passName)
		require.NoError(p, err)
		require.Len(p, info.Holders, 1)
		require.Equal(p, p.hold.HolderID(), info.Holders[0].ID)
		p.env.Advance(passFuture)
		require.NoError(p, p.hold.Context().Err())
		require.Zero(p, p.c.Stats().Losses)
		p.showsHolder("1")
		require.NoError(p, p.hold.Unlock(p.Context())) // the slice is over: by Redis
		h := <-p.line[0]
		require.NoError(p, h.Err)
		require.NoError(p, h.Hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}

// The holder is that of both, but each has a Hold and a context of its own: those of the one
// before say nothing about the lock any more.
func TestHandOverEndsTheHoldBefore(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		before := p.hold
		ctx := context.WithoutCancel(before.Context())
		p.next()
		require.ErrorIs(p, before.Unlock(p.Context()), latchkey.ErrNotHeld)
		require.ErrorIs(p, before.Extend(p.Context(), time.Minute), latchkey.ErrNotHeld)
		require.ErrorIs(p, p.l.Unlock(ctx), latchkey.ErrNotHeld)
		require.ErrorIs(p, context.Cause(before.Context()), context.Canceled)
		require.Zero(p, before.Remaining())
		_, err := p.l.TryLock(ctx)
		require.ErrorIs(p, err, latchkey.ErrNotAcquired, "it is not its lock any more")
		n, err := p.l.HoldCount(ctx)
		require.NoError(p, err)
		require.Zero(p, n)
		require.NoError(p, p.hold.Context().Err())
		p.showsHolder("1")
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}

// A re-entry that is under way as its hold is given back is granted, and the waiter has its
// turn afterwards.
func TestHandOverMeetsAReentry(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		holder := p.hold.HolderID()
		link := p.env.Link(p.env.Redis)
		link.HoldFor(time.Millisecond)
		link.OnNext(1, "evalsha", redistest.Hold)
		ctx := context.WithoutCancel(p.hold.Context())
		again := locktest.Later(func() (*latchkey.Hold, error) { return p.l.Lock(ctx) })
		synctest.Wait()
		require.NoError(p, p.hold.Unlock(p.Context()))
		r := <-again
		require.NoError(p, r.Err)
		require.Equal(p, holder, r.Hold.HolderID())
		require.Empty(p, p.line[0])
		require.NoError(p, r.Hold.Unlock(p.Context()))
		next := <-p.line[0]
		require.NoError(p, next.Err)
		require.NoError(p, next.Hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}

// A waiter whose own request has no answer leaves it behind: the lock is not granted to
// nobody when that comes late.
func TestHandOverLeavesADoubtBehind(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client(func(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond })
		p := &passing{T: t, env: env, c: locktest.NewClient(t, rdb, latchkey.WithHandOver(time.Hour))}
		p.l = rlock.New(p.c, passName)
		p.hold = locktest.Must(t)(p.l.Lock(t.Context()))
		p.line = append(p.line, p.wait(t.Context()))
		env.Advance(time.Second)
		link, late := env.Link(rdb), false
		link.HoldFor(300 * time.Millisecond)
		link.OnCommand(func(args []string) redistest.Act {
			if locktest.Runs(args, lua.RLockAcquire) && !late {
				late = true
				return redistest.Late
			}
			return redistest.Pass
		})
		env.Redis.Publish(t.Context(), "redisson_lock__channel:{a}", "0") // so that it asks
		env.Advance(200 * time.Millisecond)                               // it has asked again, and was refused
		require.True(t, late)
		require.Equal(t, p.hold.HolderID(), p.next().HolderID(), "in memory")
		require.NoError(t, p.hold.Unlock(t.Context()))
		p.shows(map[string]string{})
		env.Advance(200 * time.Millisecond)
		env.Advance(5 * time.Second) // by then its deadline is over
		p.shows(map[string]string{})
	})
}

// A hold that was handed over can be re-entered, extended and given back as any
// other, and Redis counts right.
func TestHandOverThenReentry(t *testing.T) {
	inPassing(t, 2, nil, func(p *passing) {
		first := p.hold
		p.next()
		start := time.Now()
		again := locktest.Must(p.T)(p.l.Lock(p.hold.Context(), latchkey.Label("who")))
		require.Zero(p, time.Since(start), "it waits for nothing")
		p.showsHolder("2")
		n, err := p.l.HoldCount(p.hold.Context())
		require.NoError(p, err)
		require.Equal(p, 2, n)
		require.NoError(p, again.Unlock(p.Context()))
		p.showsHolder("1")
		require.ErrorIs(p, first.Unlock(p.Context()), latchkey.ErrNotHeld)
		p.env.Advance(passFuture)
		p.showsHolder("1")
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.hold = (<-p.line[0]).Hold
		p.showsHolder("1")
		require.NoError(p, p.hold.Unlock(p.Context()))
		require.Empty(p, p.env.Mini.Keys(), "keys left, labels too")
		require.Zero(p, p.c.Stats().Losses)
	})
}

func TestHandOverThenExtend(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		p.next()
		require.NoError(p, p.hold.Extend(p.Context(), time.Hour))
		p.showsHolder("1")
		require.Greater(p, p.env.Mini.TTL(passName), 59*time.Minute)
		require.Greater(p, p.hold.Remaining(), 59*time.Minute)
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}

// Nobody gets a longer lease than he has asked for: it would outlast his process.
func TestHandOverDoesNotPassALongLeaseOn(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		require.NoError(p, p.hold.Extend(p.Context(), time.Hour))
		p.next()
		require.LessOrEqual(p, p.env.Mini.TTL(passName), 30*time.Second)
		require.LessOrEqual(p, p.hold.Remaining(), 30*time.Second)
		require.NoError(p, p.hold.Unlock(p.Context()))
	})
}

// A lease of one's own takes Redis: one command gives back and takes.
func TestHandOverByRedis(t *testing.T) {
	for name, with := range map[string]struct {
		lock []rlock.Option
		wait []latchkey.LockOption
	}{
		"lease":   {wait: []latchkey.LockOption{latchkey.Lease(5 * time.Second)}},
		"maxhold": {wait: []latchkey.LockOption{latchkey.MaxHold(5 * time.Second)}},
		"fenced":  {lock: []rlock.Option{rlock.Fenced()}, wait: []latchkey.LockOption{latchkey.Lease(5 * time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			inPassing(t, 10, with.lock, func(p *passing) {
				token := p.hold.Token()
				for i := range 10 {
					sent := p.sent(func() { p.next() })
					if i == 0 && sent == 2 {
						sent-- // the lease has become shorter: the next one may have heard so, and asked
					}
					require.EqualValues(p, 1, sent, "commands of a hand-over")
					p.showsHolder("1")
					if with.lock != nil {
						require.Greater(p, p.hold.Token(), token)
						token = p.hold.Token()
					}
					require.Equal(p, 5*time.Second, p.env.Mini.TTL(passName))
				}
				require.NoError(p, p.hold.Unlock(p.Context()))
				p.shows(map[string]string{})
			}, with.wait...)
		})
	}
}

// counter returns the last fencing token that Redis has given out.
func (p *passing) counter() int64 {
	p.Helper()
	text, err := p.env.Mini.Get("redisson_lock_token:{" + passName + "}")
	require.NoError(p, err)
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(p, err)
	return n
}

// A hand-over of a fenced lock by Redis takes tokens for those that follow in memory:
// one for each µs since the last one.
func TestHandOverFenced(t *testing.T) {
	inPassing(t, 9, []rlock.Option{rlock.Fenced()}, func(p *passing) {
		tokens := []int64{p.hold.Token()}
		next := func(commands int64) {
			p.Helper()
			require.EqualValues(p, commands, p.sent(func() { p.next() }), "commands of a hand-over")
			require.Greater(p, p.hold.Token(), tokens[len(tokens)-1])
			tokens = append(tokens, p.hold.Token())
		}
		p.env.Advance(4 * time.Microsecond)
		next(1)
		require.Equal(p, tokens[0]+1, tokens[1])
		taken := p.counter()
		require.Equal(p, tokens[0]+4, taken, "one for each µs")
		next(0)
		next(0)
		require.Equal(p, taken, p.counter(), "nothing but the first took any")
		next(0)
		require.Equal(p, taken, p.hold.Token(), "all of them")
		p.env.Advance(passLonger)
		p.showsHolder("1")

		// The slice is over: each has to ask.
		next(1)
		require.Equal(p, time.Now().UnixMicro(), p.hold.Token(), "the clock has gone on")
		p.env.Advance(passSlice - 100*time.Microsecond)
		next(1)
		require.Equal(p, time.Now().UnixMicro(), p.counter())
		require.Equal(p, p.counter()-100, p.hold.Token(), "no more than may be of use")
		next(0)

		// A re-entry takes a token above all those, which are lost.
		taken = p.counter()
		again, err := p.l.Lock(p.hold.Context())
		require.NoError(p, err)
		require.Greater(p, again.Token(), taken)
		require.NoError(p, again.Unlock(p.Context()))
		tokens = append(tokens, again.Token())
		next(1)
		next(1) // the clock stands still
		require.Equal(p, p.hold.Token(), p.counter())
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.shows(map[string]string{})
		require.Zero(p, p.c.Stats().Losses)
	})
}

// Redis may lose its data at any moment, and goes on by its clock then: no token is
// ahead of that, neither one that somebody has nor one that has been taken for later.
func TestTokensDoNotOutrunTheClock(t *testing.T) {
	inPassing(t, 12, []rlock.Option{rlock.Fenced()}, func(p *passing) {
		// The first takes three tokens, and the fourth the nine of the time since then.
		require.EqualValues(p, 2, p.sent(func() {
			for range 12 {
				p.env.Advance(3 * time.Microsecond)
				p.next()
				require.LessOrEqual(p, p.hold.Token(), p.counter())
				require.LessOrEqual(p, p.counter(), time.Now().UnixMicro())
			}
		}), "commands")
		p.env.Mini.FlushAll()
		p.env.Advance(time.Microsecond)
		other := locktest.Must(p.T)(rlock.New(locktest.NewClient(p.T, p.env.Client()), passName, rlock.Fenced()).Lock(p.Context()))
		require.Greater(p, other.Token(), p.hold.Token())
		require.ErrorIs(p, p.hold.Unlock(p.Context()), latchkey.ErrLeaseLost)
		require.NoError(p, other.Unlock(p.Context()))
	})
}

// Turned off, each release is one for everybody.
func TestHandOverOff(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		sub := env.Client().Subscribe(t.Context(), "redisson_lock__channel:{a}")
		defer sub.Close()
		_, err := sub.Receive(t.Context())
		require.NoError(t, err)
		c := locktest.NewClient(t, env.Redis, latchkey.WithHandOver(0))
		p := &passing{T: t, env: env, c: c, l: rlock.New(c, passName)}
		p.hold = locktest.Must(t)(p.l.Lock(t.Context()))
		for range 5 {
			p.line = append(p.line, p.wait(t.Context()))
		}
		env.Advance(time.Second)
		for range 5 {
			p.next()
			p.showsHolder("1")
			_, err := sub.ReceiveMessage(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, p.hold.Unlock(t.Context()))
	})
}

// At the end of a slice the others have their turn.
func TestHandOverEndsWithItsSlice(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := locktest.NewClient(t, env.Redis)
		l := rlock.New(c, passName)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					h, err := l.Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Millisecond)
					assert.NoError(t, h.Unlock(ctx))
				}
			})
		}
		env.Advance(time.Second)
		other := rlock.New(locktest.NewClient(t, env.Client()), passName)
		start := time.Now()
		for range 20 {
			h := locktest.Must(t)(other.Lock(t.Context()))
			require.NoError(t, h.Unlock(t.Context()))
		}
		// It loses about every second race for a lock that is free.
		require.Less(t, time.Since(start), 20*10*passSlice)
		cancel()
		all.Wait()
	})
}

// A holder notices what has been taken away from it.
func TestHandOverThenForced(t *testing.T) {
	for name, force := range map[string]func(p *passing){
		"ForceUnlock": func(p *passing) {
			ok, err := rlock.New(locktest.NewClient(p.T, p.env.Client()), passName).ForceUnlock(p.Context())
			require.NoError(p, err)
			require.True(p, ok)
		},
		"DEL": func(p *passing) { p.env.Mini.Del(passName) },
	} {
		t.Run(name, func(t *testing.T) {
			inPassing(t, 1, nil, func(p *passing) {
				p.next()
				force(p)
				start := time.Now()
				<-p.hold.Lost()
				require.LessOrEqual(p, time.Since(start), 10*time.Second, "by a renewal")
				require.ErrorIs(p, p.hold.Unlock(p.Context()), latchkey.ErrLeaseLost)
				p.shows(map[string]string{})
			})
		})
	}
}

// The one who gives it back may be the first to find out.
func TestHandOverThenGone(t *testing.T) {
	inPassing(t, 2, nil, func(p *passing) {
		p.next()
		p.env.Mini.Del(passName)
		p.next()
		require.ErrorIs(p, p.hold.Unlock(p.Context()), latchkey.ErrLeaseLost)
		require.EqualValues(p, 1, p.c.Stats().Losses)
	})
}

// The lease can end in the hands of one it was handed over to.
func TestHandOverThenLost(t *testing.T) {
	inPassing(t, 1, nil, func(p *passing) {
		p.next()
		p.env.Partition()
		<-p.hold.Lost()
		require.Positive(p, p.env.Mini.TTL(passName), "it knows before others can have it")
		p.env.Heal()
		require.ErrorIs(p, p.hold.Unlock(p.Context()), latchkey.ErrLeaseLost)
		p.shows(map[string]string{})
		h := locktest.Must(p.T)(p.l.TryLock(p.Context()))
		require.NoError(p, h.Unlock(p.Context()))
	})
}

// A waiter that has a holder already keeps that one: one command gives back and takes.
func TestHandOverToOneWhoComesAgain(t *testing.T) {
	inPassing(t, 0, nil, func(p *passing) {
		mine := latchkey.WithHolder(p.Context())
		p.line = append(p.line, p.wait(mine), p.wait(p.Context()))
		require.EqualValues(p, 1, p.sent(func() { p.next() }))
		p.showsHolder("1")
		held, err := p.l.IsHeldBy(p.Context(), p.hold.Holder())
		require.NoError(p, err)
		require.True(p, held)
		require.EqualValues(p, 1, p.sent(func() { p.next() }), "that holder may come again, so nobody takes it over")
		p.showsHolder("1")
		again := p.wait(mine)
		refused, err := p.l.TryLock(mine)
		require.ErrorIs(p, err, latchkey.ErrNotAcquired)
		require.Nil(p, refused)
		p.env.Advance(passLonger)
		p.showsHolder("1")
		require.Empty(p, again)
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.hold = (<-again).Hold
		nested := locktest.Must(p.T)(p.l.Lock(mine))
		p.showsHolder("2")
		require.NoError(p, nested.Unlock(p.Context()))
		require.NoError(p, p.hold.Unlock(p.Context()))
		p.shows(map[string]string{})
	})
}

// Close gives back what was handed over, and wakes nobody of its own.
func TestHandOverThenClose(t *testing.T) {
	inPassing(t, 2, nil, func(p *passing) {
		p.next()
		require.NoError(p, p.c.Close())
		require.ErrorIs(p, (<-p.line[0]).Err, latchkey.ErrClosed)
		require.ErrorIs(p, context.Cause(p.hold.Context()), latchkey.ErrClosed)
		p.env.Advance(time.Second)
		p.shows(map[string]string{})
	})
}
