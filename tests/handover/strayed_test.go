package handover_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

// An Unlock gives the lock to nobody of its own client who has had it in another way: the
// answers to a TryLock, which takes the entry of the client's waiter out of the list, and
// to the waiter, who was refused after that, come in the wrong order.
func TestEntryAfterAnswersInTheWrongOrder(t *testing.T) {
	for name, opts := range map[string][]any{
		"plain": nil, "fenced": {rlock.Fenced()}, "not handed on": {latchkey.WithHandOver(0)},
	} {
		t.Run(name, func(t *testing.T) {
			var ropts []rlock.Option
			for _, o := range opts {
				if o, ok := o.(rlock.Option); ok {
					ropts = append(ropts, o)
				}
			}
			given(t, ropts, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
				w := waits(t, env, t.Context(), opts...)
				enlisted(t, env)
				l, link := rlock.New(w.c, "l", ropts...), env.Link(w.rdb)
				link.HoldFor(50 * time.Millisecond)
				link.OnNext(1, "evalsha", redistest.Hold)
				env.Redis.Del(t.Context(), "l") // by force: nobody is told
				try := locktest.Later(func() (*latchkey.Hold, error) { return l.TryLock(t.Context()) })
				synctest.Wait()
				require.EqualValues(t, 1, env.Redis.Exists(t.Context(), "l").Val(), "the TryLock has it")
				require.Zero(t, env.Redis.Exists(t.Context(), listOfL).Val(), "and nobody is in the list")
				env.Redis.Publish(t.Context(), channelOfL, "0")
				synctest.Wait()
				enlisted(t, env) // again
				require.Empty(t, try, "the answer came too early")
				first := <-try
				require.NoError(t, first.Err)
				locktest.MustUnlock(t, first.Hold)
				r := <-w.got
				require.NoError(t, r.Err)
				link.OnNext(1, "evalsha", redistest.Hold) // a message about it would come before the answer
				locktest.MustUnlock(t, r.Hold)
				env.Advance(100 * time.Millisecond)
				require.Zero(t, env.Redis.Exists(t.Context(), "l", listOfL).Val(), "it was given to one who has had it")
			})
		})
	}
}

// What a holder is given under the number of its entry, while it has the lock from another
// of its client in memory, is given back at once: it has another number by then.
func TestGivenToOneWhoWasHandedIt(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		w := waits(t, env, t.Context())
		mine := enlisted(t, env)
		l := rlock.New(w.c, "l")
		env.Redis.Del(t.Context(), "l")
		first, err := l.TryLock(t.Context())
		require.NoError(t, err)
		env.Redis.Publish(t.Context(), channelOfL, "0") // so that the waiter asks
		synctest.Wait()
		require.Equal(t, mine, enlisted(t, env))
		locktest.MustUnlock(t, first)
		second := (<-w.got).Hold
		require.Equal(t, map[string]string{first.HolderID(): "1"}, env.Redis.HGetAll(t.Context(), "l").Val(), "in memory")

		// The lock is lost, and another client has it, and gives it to the entry.
		env.Redis.Del(t.Context(), "l")
		other := locktest.MustLock(t, rlock.New(locktest.NewClient(t, env.Client()), "l"))
		require.ErrorIs(t, h.Unlock(t.Context()), latchkey.ErrLeaseLost)
		locktest.MustUnlock(t, other)
		env.Advance(100 * time.Millisecond)
		require.Zero(t, env.Redis.Exists(t.Context(), "l", listOfL).Val(), "it stays with one who does not know of it")
		require.ErrorIs(t, second.Unlock(t.Context()), latchkey.ErrLeaseLost)
	})
}

// The release that keeps the lock closed for a while takes out, too, what is left of those
// between whom the lock was handed on in memory.
func TestLingeringTakesOutTheEntry(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
		w := waits(t, env, t.Context())
		mine := enlisted(t, env)
		env.Redis.Del(t.Context(), "l")
		l := rlock.New(w.c, "l")
		first, err := l.TryLock(t.Context())
		require.NoError(t, err)
		last := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context(), latchkey.HoldAtLeast(50*time.Millisecond)) })
		synctest.Wait()
		env.Redis.Publish(t.Context(), channelOfL, "0") // so that the waiter asks
		synctest.Wait()
		require.Equal(t, mine, enlisted(t, env))
		locktest.MustUnlock(t, first)
		second := <-w.got
		require.NoError(t, second.Err)
		locktest.MustUnlock(t, second.Hold)
		third := <-last
		require.NoError(t, third.Err)
		locktest.MustUnlock(t, third.Hold)
		require.Equal(t, []string{"l"}, env.Redis.Keys(t.Context(), "*").Val())
		env.Advance(50 * time.Millisecond)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// A nested request that is granted as the labelled outer hold is lost is undone with the
// label that it prolonged.
func TestLabelOfANestedHoldThatIsUndone(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client()
		l, link := rlock.New(locktest.NewClient(t, rdb), "l"), env.Link(rdb)
		ctx := latchkey.WithHolder(t.Context())
		locktest.MustUnlock(t, locktest.MustLock(t, l)) // loads the scripts
		outer, err := l.Lock(ctx, latchkey.Lease(time.Second), latchkey.Label("work"))
		require.NoError(t, err)
		env.Advance(900 * time.Millisecond)
		link.HoldFor(500 * time.Millisecond)
		link.OnNext(1, "evalsha", redistest.Hold)
		_, err = l.Lock(ctx)
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		env.Advance(100 * time.Millisecond)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val(), "undone, with the label")
		require.ErrorIs(t, outer.Unlock(ctx), latchkey.ErrLeaseLost)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// A waiter to which Redis passes the lock is in no list any more.
func TestPassedOnTakesOutTheEntry(t *testing.T) {
	fenced := []rlock.Option{rlock.Fenced()}
	given(t, fenced, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
		w := waits(t, env, t.Context(), rlock.Fenced())
		mine := enlisted(t, env)
		env.Redis.Del(t.Context(), "l")
		first, err := rlock.New(w.c, "l", fenced...).TryLock(t.Context())
		require.NoError(t, err)
		env.Redis.Publish(t.Context(), channelOfL, "0") // so that the waiter asks
		synctest.Wait()
		require.Equal(t, mine, enlisted(t, env))
		passed := env.Commands("evalsha")
		locktest.MustUnlock(t, first)
		second := <-w.got
		require.NoError(t, second.Err)
		require.Equal(t, passed+1, env.Commands("evalsha"), "by one command")
		require.Equal(t, map[string]string{second.Hold.HolderID(): "1"}, env.Redis.HGetAll(t.Context(), "l").Val())
		require.Zero(t, env.Redis.Exists(t.Context(), listOfL).Val())
		locktest.MustUnlock(t, second.Hold)
	})
}

// A client with the id of one that has died is another one: nothing is given to the dead
// because it listens.
func TestGivenToTheDeadOfTheSameID(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		dead := waits(t, env, t.Context(), latchkey.WithID("worker"))
		enlisted(t, env)
		link := env.Link(dead.rdb)
		link.OnCommand(func([]string) redistest.Act { return redistest.RefuseRST })
		link.CutAll()
		env.Advance(100 * time.Millisecond)
		w := waits(t, env, t.Context(), latchkey.WithID("worker"))
		start := time.Now()
		locktest.MustUnlock(t, h)
		r := <-w.got
		require.NoError(t, r.Err)
		require.Less(t, time.Since(start), 50*time.Millisecond)
		locktest.MustUnlock(t, r.Hold)
		link.OnCommand(nil)
		if last := <-dead.got; last.Err == nil { // else it had no answer for too long
			locktest.MustUnlock(t, last.Hold)
		}
	})
}

// A reentrant lock and a fair lock of one name are told of what they are given on Redis
// channels of their own, so that a client that waits for both hears of both.
func TestGivenBesideAFairLock(t *testing.T) {
	for _, fairFirst := range []bool{true, false} {
		given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
			c := locktest.NewClient(t, env.Client())
			fair, plain := fairlock.New(c, "l"), rlock.New(c, "l")
			waiting := []func() (*latchkey.Hold, error){
				func() (*latchkey.Hold, error) { return fair.Lock(t.Context()) },
				func() (*latchkey.Hold, error) { return plain.Lock(t.Context()) },
			}
			got := make([]<-chan locktest.Outcome, 2)
			for i := range got {
				if !fairFirst {
					i = 1 - i
				}
				got[i] = locktest.Later(waiting[i])
				env.Advance(50 * time.Millisecond)
			}
			locktest.MustUnlock(t, h) // to the reentrant one
			start := time.Now()
			r := <-got[1]
			require.NoError(t, r.Err)
			require.Less(t, time.Since(start), 50*time.Millisecond)
			locktest.MustUnlock(t, r.Hold)
			r = <-got[0]
			require.NoError(t, r.Err)
			locktest.MustUnlock(t, r.Hold)
		})
	}
}

// An extension that is under way when its hold is given back is not carried out for the
// next one: the lock is not handed on in memory meanwhile, nor for as long as one without
// an answer may come.
func TestExtendMeetsTheHandOver(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
			w := waits(t, env, t.Context())
			locktest.MustUnlock(t, h)
			first := (<-w.got).Hold
			l := rlock.New(w.c, "l")
			next := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
			synctest.Wait()
			link := env.Link(w.rdb)
			link.HoldFor(5 * time.Millisecond) // in which the key shows who had it before
			link.OnCommand(func(args []string) redistest.Act {
				if locktest.Runs(args, lua.RLockRenew) {
					return redistest.Late
				}
				return redistest.Pass
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			extended := make(chan error, 1)
			go func() { extended <- first.Extend(ctx, time.Hour) }()
			synctest.Wait()
			require.EqualValues(t, 1, link.Count(redistest.Late), "it is under way")
			if doubt {
				cancel()
				require.ErrorIs(t, <-extended, context.Canceled)
			}
			locktest.MustUnlock(t, first)
			r := <-next
			require.NoError(t, r.Err)
			if !doubt {
				require.ErrorIs(t, <-extended, latchkey.ErrNotHeld)
			}
			env.Advance(2 * time.Second)
			require.LessOrEqual(t, env.Redis.PTTL(t.Context(), "l").Val(), 30*time.Second, "it is closed for longer than its holder knows")
			locktest.MustUnlock(t, r.Hold)
		})
	}
}
