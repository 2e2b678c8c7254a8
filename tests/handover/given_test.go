package handover_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/rlock"
)

const (
	channelOfL = "redisson_lock__channel:{l}"
	listOfL    = "latchkey_next:{l}"
)

// A waiting is a call of Lock that waits.
type waiting struct {
	rdb *redis.Client
	c   *latchkey.Client
	got chan locktest.Outcome
}

// waits lets a client of its own wait for the lock l.
func waits(t *testing.T, env *redistest.Env, ctx context.Context, opts ...any) *waiting { //nolint:revive // after t
	t.Helper()
	var copts []latchkey.Option
	var lopts []latchkey.LockOption
	var ropts []rlock.Option
	for _, o := range opts {
		switch o := o.(type) {
		case latchkey.LockOption:
			lopts = append(lopts, o)
		case rlock.Option:
			ropts = append(ropts, o)
		case latchkey.Option:
			copts = append(copts, o)
		}
	}
	rdb := env.Client()
	w := &waiting{rdb, latchkey.New(rdb, copts...), make(chan locktest.Outcome, 1)}
	t.Cleanup(func() { _ = w.c.Close() })
	go func() {
		h, err := rlock.New(w.c, "l", ropts...).Lock(ctx, lopts...)
		w.got <- locktest.Outcome{Hold: h, Err: err}
	}()
	env.Advance(10 * time.Millisecond)
	return w
}

// given runs f in a bubble, with the lock l held.
func given(t *testing.T, opts []rlock.Option, f func(t *testing.T, env *redistest.Env, h *latchkey.Hold)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Client())
		defer c.Close()
		l := rlock.New(c, "l", opts...)
		locktest.MustUnlock(t, locktest.MustLock(t, l)) // loads the scripts
		f(t, env, locktest.MustLock(t, l))
	})
}

// The lock goes to a waiter of another client with the unlock: it need not ask, and
// the key has its name at once.
func TestGivenToAnotherClient(t *testing.T) {
	for _, held := range []time.Duration{50 * time.Millisecond, 4900 * time.Millisecond, time.Duration(redistest.Many(60, 10)) * time.Minute} {
		t.Run(held.String(), func(t *testing.T) {
			given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
				w := waits(t, env, t.Context())
				env.Advance(held)
				sent, start := env.Commands("evalsha"), time.Now()
				locktest.MustUnlock(t, h)
				r := <-w.got
				require.NoError(t, r.Err)
				require.Zero(t, time.Since(start))
				require.Equal(t, sent+1, env.Commands("evalsha"), "the unlock, and nothing else")
				require.Equal(t, map[string]string{r.Hold.HolderID(): "1"}, env.Redis.HGetAll(t.Context(), "l").Val())
				require.Zero(t, env.Redis.Exists(t.Context(), listOfL).Val())
				require.LessOrEqual(t, r.Hold.Remaining(), env.Redis.PTTL(t.Context(), "l").Val(), "believed in for longer than Redis keeps it")
				require.Greater(t, r.Hold.Remaining(), 15*time.Second)
				env.Advance(time.Duration(redistest.Many(60, 6)) * time.Minute)
				require.NoError(t, r.Hold.Context().Err())
				locktest.MustUnlock(t, r.Hold)
				require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
			})
		})
	}
}

// Clients have it in the order in which they asked.
func TestGivenInTurn(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		var ws []*waiting
		for range 5 {
			ws = append(ws, waits(t, env, t.Context()))
		}
		for i, w := range ws {
			env.Advance(200 * time.Millisecond) // the subscription of the one before is gone
			locktest.MustUnlock(t, h)
			synctest.Wait()
			for j, other := range ws[i:] {
				require.Len(t, other.got, max(1-j, 0), "after %d", i)
			}
			h = (<-w.got).Hold
		}
		locktest.MustUnlock(t, h)
	})
}

// Where anybody else listens, the lock is free for all.
func TestNotGivenWhereOthersListen(t *testing.T) {
	for name, opts := range map[string][]any{
		"Redisson":           nil,
		"turned off":         {latchkey.WithDirectGrants(false)},
		"a holder in ctx":    {"holder"},
		"labelled":           {latchkey.Label("x")},
		"replicas must know": {latchkey.WithReplicaAck(1, time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if len(opts) > 0 && opts[0] == "holder" {
					ctx = latchkey.WithHolder(ctx)
				}
				if name == "Redisson" {
					ps := env.Client().Subscribe(t.Context(), channelOfL)
					defer ps.Close()
					_, err := ps.Receive(t.Context())
					require.NoError(t, err)
				}
				first := waits(t, env, ctx, opts...)
				second := waits(t, env, t.Context())
				raw := env.Client().PSubscribe(t.Context(), "redisson_lock__channel*")
				defer raw.Close()
				_, err := raw.Receive(t.Context())
				require.NoError(t, err)
				messages := raw.Channel()
				synctest.Wait()
				locktest.MustUnlock(t, h)
				m := <-messages
				require.Equal(t, channelOfL+" 0", m.Channel+" "+m.Payload)
				env.Advance(time.Second)
				for range 2 { // whoever comes first
					select {
					case r := <-first.got:
						if name != "replicas must know" { // there are none
							require.NoError(t, r.Err)
							locktest.MustUnlock(t, r.Hold)
						}
					case r := <-second.got:
						require.NoError(t, r.Err)
						locktest.MustUnlock(t, r.Hold)
					}
					env.Advance(time.Second)
				}
			})
		})
	}
}

// A waiter that is gone is passed over, and costs nobody a moment.
func TestNotGivenToTheDead(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		env.Redis.ZAdd(t.Context(), listOfL, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "dead:7 30000 dead word"})
		w := waits(t, env, t.Context())
		start := time.Now()
		locktest.MustUnlock(t, h)
		r := <-w.got
		require.NoError(t, r.Err)
		require.Zero(t, time.Since(start))
		require.Equal(t, map[string]string{r.Hold.HolderID(): "1"}, env.Redis.HGetAll(t.Context(), "l").Val())
		locktest.MustUnlock(t, r.Hold)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// A waiter that gives up leaves the list, and what is given in that moment goes on.
func TestGivenToOneWhoGivesUp(t *testing.T) {
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprint("later ", later), func(t *testing.T) {
			given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
				ctx, cancel := context.WithCancel(t.Context())
				w := waits(t, env, ctx)
				next := waits(t, env, t.Context())
				cancel()
				if later {
					require.ErrorIs(t, (<-w.got).Err, context.Canceled)
					synctest.Wait()
					require.EqualValues(t, 1, env.Redis.ZCard(t.Context(), listOfL).Val())
				}
				locktest.MustUnlock(t, h)
				r := <-next.got
				require.NoError(t, r.Err)
				locktest.MustUnlock(t, r.Hold)
				if !later {
					if r = <-w.got; r.Err == nil {
						locktest.MustUnlock(t, r.Hold)
					}
				}
				env.Advance(10 * time.Second)
				require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
			})
		})
	}
}

// A waiter that gives up while Redis cannot be reached leaves the list when it can be again.
func TestGivenUpWithoutRedis(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
		ctx, cancel := context.WithCancel(t.Context())
		w := waits(t, env, ctx)
		watcher := env.Client()
		listed := func() int64 { return watcher.ZCard(t.Context(), listOfL).Val() }
		require.EqualValues(t, 1, listed())
		env.Partition()
		cancel()
		require.ErrorIs(t, (<-w.got).Err, context.Canceled)
		env.Advance(6 * time.Second)
		env.Heal()
		env.Advance(3 * time.Second)
		require.Zero(t, listed())
	})
}

// A waiter that gives up leaves the list also when another one of its client stands there by
// now, or may: what that one asks for has not reached Redis.
func TestGivenUpBeforeAnother(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
		ctx, cancel := context.WithCancel(t.Context())
		first := waits(t, env, ctx)
		ctx, cancelSecond := context.WithCancel(t.Context())
		second := make(chan locktest.Outcome, 1)
		go func() {
			h, err := rlock.New(first.c, "l").Lock(ctx)
			second <- locktest.Outcome{Hold: h, Err: err}
		}()
		synctest.Wait()
		watcher := env.Client()
		listed := func() []string { return watcher.ZRange(t.Context(), listOfL, 0, -1).Val() }
		before := listed()
		require.Len(t, before, 1)
		env.Partition()
		cancel()
		require.ErrorIs(t, (<-first.got).Err, context.Canceled)
		synctest.Wait() // the second one is the first of its client now, and asks
		cancelSecond()
		require.ErrorIs(t, (<-second).Err, context.Canceled)
		env.Heal()
		env.Advance(10 * time.Second)
		require.Empty(t, listed(), "before: %v", before)
	})
}

// A waiter that gives up takes out its own entry, and leaves that of the next one of its client.
func TestGivenUpLeavesTheNextOne(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
		ctx, cancel := context.WithCancel(t.Context())
		first := waits(t, env, ctx)
		second := rlock.New(first.c, "l").LockAsync(t.Context())
		synctest.Wait()
		watcher := env.Client()
		listed := func() []string { return watcher.ZRange(t.Context(), listOfL, 0, -1).Val() }
		before := listed()
		require.Len(t, before, 1)
		holder, _, _ := strings.Cut(before[0], " ")
		link, refused := env.Link(first.rdb), false
		link.OnCommand(func(args []string) redistest.Act {
			if refused || !slices.Contains(args, holder) {
				return redistest.Pass
			}
			refused = true // what takes out the first one comes again when the second one stands there
			return redistest.RefuseRST
		})
		cancel()
		require.ErrorIs(t, (<-first.got).Err, context.Canceled)
		env.Advance(4 * time.Second) // before anybody looks again
		require.True(t, refused)
		require.Len(t, listed(), 1)
		require.NotEqual(t, before, listed())
		require.NoError(t, first.c.Close())
		require.ErrorIs(t, (<-second).Err, latchkey.ErrClosed)
	})
}

// A waiter that gives up while a request of its own is under way may have been given the lock as
// well: what is taken back first need not be what the request is granted later.
func TestGivenWhileItAsksAndGivesUp(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		ctx, cancel := context.WithCancel(t.Context())
		w := waits(t, env, ctx)
		link := env.Link(w.rdb)
		link.OnNext(1, "evalsha", redistest.Late)
		env.Redis.Publish(t.Context(), channelOfL, "0")
		synctest.Wait()
		require.EqualValues(t, 1, link.Count(redistest.Late), "it asks")
		locktest.MustUnlock(t, h)
		require.EqualValues(t, 1, env.Redis.Exists(t.Context(), "l").Val(), "it is given the lock")
		cancel()
		require.ErrorIs(t, (<-w.got).Err, context.Canceled)
		synctest.Wait()
		require.Zero(t, env.Redis.Exists(t.Context(), "l").Val(), "and gives it back")
		link.Release()
		env.Advance(10 * time.Second)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// An entry is one of the list, as a client has made it.
type entry struct {
	id, number, ms, inbox, word string
}

// enlisted returns the last entry in the list.
func enlisted(t *testing.T, env *redistest.Env) (e entry) {
	t.Helper()
	all := env.Redis.ZRange(t.Context(), listOfL, -1, -1).Val()
	require.Len(t, all, 1, "%v", all)
	var holder string
	_, err := fmt.Sscan(all[0], &holder, &e.ms, &e.inbox, &e.word)
	require.NoError(t, err)
	at := strings.LastIndexByte(holder, ':')
	e.id, e.number = holder[:at], holder[at+1:]
	require.Regexp(t, `^[0-9a-z]+-[0-9a-f]{32}$`, e.word)
	return e
}

// gives is the message by which the release gives the lock to e, but for the time.
func (e entry) gives(at int64) string { return fmt.Sprintf("+%s %s %d %s", e.number, e.ms, at, e.word) }

// A message that was under way for longer than the lease it tells of is not
// believed: the waiter has been refused since. Nor is one of somebody who cannot
// read the list.
func TestOldGift(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		w := waits(t, env, t.Context())
		e := enlisted(t, env)
		require.Equal(t, w.c.ID(), e.id)
		now := time.Now().UnixMilli()
		with := func(number, ms any, at any, word string) string {
			return fmt.Sprintf("+%v %v %v %s", number, ms, at, word)
		}
		count, tag, _ := strings.Cut(e.word, "-")
		for _, m := range []string{
			"", "0", "+", "+ 1 1", "+1", "+1 1", with(e.number, e.ms, now, ""), with(e.number, e.ms, now, "x"), with(e.number, e.ms, now, "1-"),
			with(e.number, e.ms, now, tag), with(e.number, e.ms, now, e.word+"0"), with(e.number, e.ms, now, e.word[:len(e.word)-1]),
			with(e.number, e.ms, now, count+"1-"+tag), with("x", 1, 1, e.word), with(1, 1, "", e.word),
			with(1, 1, "1 1 1", e.word), with(e.number, e.ms, fmt.Sprint(now, " x"), e.word), with(e.number, int64(math.MaxInt64), now, e.word),
			e.gives(now - 1000),
		} {
			env.Redis.Publish(t.Context(), channelOfL+":"+e.inbox, m)
			env.Advance(time.Millisecond)
			require.Empty(t, w.got, "%q", m)
		}
		env.Advance(time.Second)
		require.Empty(t, w.got, "it believed what was not for it")
		locktest.MustUnlock(t, h)
		r := <-w.got
		require.NoError(t, r.Err)
		locktest.MustUnlock(t, r.Hold)
	})
}

// A word is good once. A client that has heard a message, and may publish, can give nothing by
// saying it again with another time: not when the waiter has heard it too, nor when it was
// said while the waiter's client did not listen.
func TestWordIsGoodOnce(t *testing.T) {
	for name, void := range map[string]func(t *testing.T, env *redistest.Env, w *waiting, e entry){
		"heard": func(t *testing.T, env *redistest.Env, _ *waiting, e entry) {
			env.Redis.ZPopMin(t.Context(), listOfL) // by the release that says so
			env.Redis.Publish(t.Context(), channelOfL+":"+e.inbox, e.gives(time.Now().UnixMilli()-1000))
		},
		"missed": func(_ *testing.T, env *redistest.Env, w *waiting, _ entry) {
			env.Link(w.rdb).CutAll()
			env.Advance(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
				w := waits(t, env, t.Context())
				first := enlisted(t, env)
				void(t, env, w, first)
				env.Advance(10 * time.Millisecond)
				second := enlisted(t, env)
				require.Equal(t, first.number, second.number)
				require.NotEqual(t, first.word, second.word, "it asks with another one")
				env.Redis.Publish(t.Context(), channelOfL+":"+first.inbox, first.gives(time.Now().UnixMilli()+1000))
				env.Advance(time.Second)
				require.Empty(t, w.got, "it believed a word that was said before")
				locktest.MustUnlock(t, h)
				r := <-w.got
				require.NoError(t, r.Err)
				locktest.MustUnlock(t, r.Hold)
				env.Advance(20 * time.Second) // an entry stays that was replaced while Redis was away
				require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
			})
		})
	}
}

// Redisson has one Redis channel for the locks a and {a}. An unlock of the one gives
// nobody the other: not by Redis, nor in memory.
func TestNamesThatShareAChannel(t *testing.T) {
	for name, one := range map[string]bool{"clients": false, "client": true} {
		for _, names := range [][2]string{{"l", "{l}"}, {"{l}", "l"}} {
			t.Run(name+" "+names[0], func(t *testing.T) {
				redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
					a := locktest.NewClient(t, env.Client())
					b := a
					if !one {
						b = locktest.NewClient(t, env.Client())
					}
					other := locktest.MustLock(t, rlock.New(a, names[0]))
					held := locktest.MustLock(t, rlock.New(a, names[1]))
					got := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(b, names[1]).Lock(t.Context()) })
					env.Advance(50 * time.Millisecond)
					locktest.MustUnlock(t, other)
					env.Advance(5 * time.Second)
					require.Empty(t, got, "both have it")
					require.Equal(t, map[string]string{held.HolderID(): "1"}, env.Redis.HGetAll(t.Context(), names[1]).Val())
					require.Zero(t, env.Redis.Exists(t.Context(), names[0]).Val())
					locktest.MustUnlock(t, held)
					r := <-got
					require.NoError(t, r.Err)
					locktest.MustUnlock(t, r.Hold)
				})
			})
		}
	}
}

// What is given to one who is not there any more goes on to the next at once; a message
// about somebody of whom the client knows nothing, with a word that it never made, does
// nothing.
func TestGivenToNobody(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, _ *latchkey.Hold) {
		ctx, cancel := context.WithCancel(t.Context())
		w := waits(t, env, ctx)
		e := enlisted(t, env)
		next := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(w.c, "l").Lock(t.Context()) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, (<-w.got).Err, context.Canceled)
		env.Advance(10 * time.Second) // what undoes its place is through
		nobody := e.id + ":" + e.number
		env.Redis.Del(t.Context(), "l")
		env.Redis.HSet(t.Context(), "l", nobody, 1)
		env.Redis.PExpire(t.Context(), "l", 30*time.Second)
		forged := e
		forged.word = strings.Repeat("0", 4) + e.word
		env.Redis.Publish(t.Context(), channelOfL+":"+e.inbox, forged.gives(time.Now().UnixMilli()))
		synctest.Wait()
		require.Equal(t, map[string]string{nobody: "1"}, env.Redis.HGetAll(t.Context(), "l").Val(), "nobody said so")
		start := time.Now()
		env.Redis.Publish(t.Context(), channelOfL+":"+e.inbox, e.gives(time.Now().UnixMilli()))
		r := <-next
		require.NoError(t, r.Err)
		require.Less(t, time.Since(start), 50*time.Millisecond)
		locktest.MustUnlock(t, r.Hold)
	})
}

// A message that comes when its holder has found out by asking, and has handed the
// lock on in memory, takes it from nobody: the holder's name stands for the next one.
func TestGiftThatComesBehindTheHandOver(t *testing.T) {
	given(t, nil, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
		w := waits(t, env, t.Context())
		l := rlock.New(w.c, "l")
		next := locktest.Later(func() (*latchkey.Hold, error) { return l.Lock(t.Context()) })
		e := enlisted(t, env)
		synctest.Wait()
		locktest.MustUnlock(t, h)
		first := (<-w.got).Hold
		stand := first.HolderID()
		locktest.MustUnlock(t, first)
		second := (<-next).Hold
		require.Equal(t, map[string]string{stand: "1"}, env.Redis.HGetAll(t.Context(), "l").Val())
		env.Redis.Publish(t.Context(), channelOfL+":"+e.inbox, e.gives(time.Now().UnixMilli()))
		synctest.Wait()
		require.Equal(t, map[string]string{stand: "1"}, env.Redis.HGetAll(t.Context(), "l").Val(), "the lock was taken from its holder")
		env.Advance(time.Minute)
		require.NoError(t, second.Context().Err())
		locktest.MustUnlock(t, second)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}

// A fenced lock is given with its token; a handle that takes none cannot give it.
func TestGivenWithAToken(t *testing.T) {
	for _, releaser := range [][]rlock.Option{{rlock.Fenced()}, nil} {
		t.Run(fmt.Sprint(len(releaser)), func(t *testing.T) {
			given(t, releaser, func(t *testing.T, env *redistest.Env, h *latchkey.Hold) {
				w := waits(t, env, t.Context(), rlock.Fenced())
				sent := env.Commands("evalsha")
				locktest.MustUnlock(t, h)
				r := <-w.got
				require.NoError(t, r.Err)
				require.Greater(t, r.Hold.Token(), h.Token())
				if len(releaser) > 0 {
					require.Equal(t, sent+1, env.Commands("evalsha"))
				}
				w = waits(t, env, t.Context(), rlock.Fenced())
				locktest.MustUnlock(t, r.Hold)
				r2 := <-w.got
				require.NoError(t, r2.Err)
				require.Greater(t, r2.Hold.Token(), r.Hold.Token())
				locktest.MustUnlock(t, r2.Hold)
			})
		})
	}
}

// What a client is given while it is being closed, it gives back.
func TestGivenWhileClosing(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		c := locktest.NewClient(t, rdb)
		h := locktest.MustLock(t, rlock.New(locktest.NewClient(t, env.Client()), "a"))
		waiting := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(t.Context()) })
		env.Advance(time.Second)
		require.True(t, env.Mini.Exists("latchkey_next:{a}"), "it is in the list")
		var lost atomic.Bool
		env.Link(rdb).OnCommand(func(args []string) redistest.Act {
			if locktest.Runs(args, lua.RLockRelease) && lost.CompareAndSwap(false, true) {
				return redistest.Drop // so it stays in the list, and Close waits
			}
			if args[0] == "unsubscribe" {
				return redistest.Drop // on its way yet
			}
			return redistest.Pass
		})
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		require.ErrorIs(t, (<-waiting).Err, latchkey.ErrClosed)
		env.Advance(100 * time.Millisecond)
		require.True(t, lost.Load(), "what undoes its place has been lost")
		locktest.MustUnlock(t, h)
		require.NoError(t, <-closed)
		require.False(t, env.Mini.Exists("a"), "given to one who has gone")
	})
}

// Close does not wait for the pauses of what is cleaned up in the background: it is
// tried again at once.
func TestCloseTriesOnceMore(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		rdb := env.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		c := locktest.NewClient(t, rdb)
		h := locktest.MustLock(t, rlock.New(locktest.NewClient(t, env.Client()), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		waiting := locktest.Later(func() (*latchkey.Hold, error) { return rlock.New(c, "a").Lock(ctx) })
		env.Advance(time.Second)
		require.True(t, env.Mini.Exists("latchkey_next:{a}"), "it is in the list")
		link := env.Link(rdb)
		link.OnCommand(func(args []string) redistest.Act {
			if locktest.Runs(args, lua.RLockRelease) {
				return redistest.RefuseRST
			}
			return redistest.Pass
		})
		cancel()
		require.ErrorIs(t, (<-waiting).Err, context.Canceled)
		env.Advance(300 * time.Millisecond)
		require.EqualValues(t, 3, link.Count(redistest.RefuseRST), "tries; the next one comes a second after")
		link.OnCommand(nil)
		start := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(start), 100*time.Millisecond)
		require.False(t, env.Mini.Exists("latchkey_next:{a}"), "its place in the list")
		locktest.MustUnlock(t, h)
	})
}

// A release puts in the list who waits next in its own client, who has asked nothing yet.
// When that one gives up, its entry goes with it.
func TestEntryOfAnHeirWhoGivesUp(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Client(), latchkey.WithHandOver(time.Second))
		defer c.Close()
		l := rlock.New(c, "l")
		locktest.MustUnlock(t, locktest.MustLock(t, l)) // loads the scripts
		h := locktest.MustLock(t, l)
		second := make(chan locktest.Outcome, 1)
		go func() {
			h, err := l.Lock(t.Context())
			second <- locktest.Outcome{Hold: h, Err: err}
		}()
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		heir := make(chan error, 1)
		go func() {
			_, err := l.Lock(ctx)
			heir <- err
		}()
		other := waits(t, env, t.Context())
		locktest.MustUnlock(t, h)
		handed := <-second // in memory
		require.NoError(t, handed.Err)
		env.Advance(2 * time.Second) // the slice is over
		locktest.MustUnlock(t, handed.Hold)
		r := <-other.got
		require.NoError(t, r.Err)
		synctest.Wait()
		require.EqualValues(t, 1, env.Redis.ZCard(t.Context(), listOfL).Val(), "the heir")

		leave()
		require.ErrorIs(t, <-heir, context.Canceled)
		env.Advance(100 * time.Millisecond)
		require.Zero(t, env.Redis.Exists(t.Context(), listOfL).Val())
		locktest.MustUnlock(t, r.Hold)
		require.Empty(t, env.Redis.Keys(t.Context(), "*").Val())
	})
}
