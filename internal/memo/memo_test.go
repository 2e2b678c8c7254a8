package memo_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/memo"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

const atMost = time.Minute

func newMemo(c *latchkey.Client, name string) *memo.Memo {
	return memo.New(c, memo.Config{Kind: "flight", Name: name, AtMost: atMost})
}

// onBoth runs f in fake time and on a real server.
func onBoth(t *testing.T, f func(t *testing.T, rdb func() redis.UniversalClient)) {
	t.Run("FakeTime", func(t *testing.T) {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			f(t, func() redis.UniversalClient { return b.Client() })
		})
	})
	t.Run("Redis", func(t *testing.T) {
		s := redistest.Start(t)
		f(t, func() redis.UniversalClient { return s.Client(t) })
	})
}

// begin begins a call, which must be possible.
func begin(t *testing.T, m *memo.Memo, mark string) *memo.Call {
	t.Helper()
	call, rec, err := m.Begin(t.Context(), "do", mark)
	require.NoError(t, err)
	require.NotNil(t, call, "%+v", rec)
	return call
}

// refused tries to begin a call, which must not be possible.
func refused(t *testing.T, m *memo.Memo) memo.Record {
	t.Helper()
	call, rec, err := m.Begin(t.Context(), "do", "other")
	require.NoError(t, err)
	require.Nil(t, call)
	return rec
}

func read(t *testing.T, m *memo.Memo) memo.Record {
	t.Helper()
	rec, err := m.Read(t.Context(), "get")
	require.NoError(t, err)
	return rec
}

func kept(t *testing.T, m *memo.Memo) memo.Record {
	t.Helper()
	rec, err := m.Kept(t.Context(), "get")
	require.NoError(t, err)
	return rec
}

func TestKeep(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb func() redis.UniversalClient) {
		c, other := locktest.NewClient(t, rdb()), locktest.NewClient(t, rdb())
		for _, name := range []string{"x", "{x}", "a b{c}d"} {
			m, them := newMemo(c, name), newMemo(other, name)
			require.Equal(t, memo.Record{}, read(t, m))
			require.Equal(t, memo.Record{}, kept(t, m))
			call := begin(t, m, "the mark\n")
			rec := read(t, them)
			require.Equal(t, memo.Running, rec.State)
			require.Equal(t, call.Name(), rec.Call)
			require.Equal(t, "the mark\n", rec.Mark)
			require.True(t, rec.Busy)
			require.False(t, rec.Since.IsZero())
			require.Positive(t, rec.Left)
			require.Equal(t, memo.Running, refused(t, them).State)
			require.Equal(t, memo.None, kept(t, them).State)

			require.NoError(t, call.Context().Err())
			require.NoError(t, call.Keep(t.Context(), "do", []byte("1\n2\x00"), time.Hour, 0))
			require.Error(t, call.Context().Err())
			for _, rec := range []memo.Record{read(t, them), kept(t, them), refused(t, them)} {
				require.Equal(t, memo.Done, rec.State)
				require.True(t, rec.Fresh)
				require.False(t, rec.Busy)
				require.Equal(t, call.Name(), rec.Call)
				require.Equal(t, "the mark\n", rec.Mark)
				require.Equal(t, "1\n2\x00", string(rec.Value))
				require.False(t, rec.Made.IsZero())
			}
		}
		keys := rdb().Keys(t.Context(), "*").Val()
		require.Len(t, keys, 3, "values alone, each with a key of its own")
		for _, key := range keys {
			require.Positive(t, rdb().PTTL(t.Context(), key).Val(), key)
		}
	})
}

// The key prefix stands in the braces.
func TestKeyPrefix(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		call := begin(t, newMemo(locktest.NewClient(t, b.Client(), latchkey.WithKeyPrefix("app:")), "x"), "")
		require.ElementsMatch(t, []string{"{app:x}:latchkey_flight", "{app:x}:latchkey_flight_call"}, b.Mini.Keys())
		require.NoError(t, call.Keep(t.Context(), "do", nil, time.Hour, 0))
		require.Equal(t, []string{"{app:x}:latchkey_flight_value"}, b.Mini.Keys())
	})
}

// A kind has values of its own.
func TestKinds(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		require.NoError(t, begin(t, newMemo(c, "x"), "").Keep(t.Context(), "do", nil, time.Hour, 0))
		idem := memo.New(c, memo.Config{Kind: "idem", Name: "x", AtMost: atMost})
		require.NoError(t, begin(t, idem, "").Drop(t.Context(), "do"))
	})
}

// What is no longer fresh is shown, and a call may begin.
func TestFresh(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		m := newMemo(c, "x")
		require.NoError(t, begin(t, m, "").Keep(t.Context(), "do", []byte("old"), time.Hour, time.Minute))
		require.True(t, refused(t, m).Fresh)
		time.Sleep(time.Minute)
		for _, rec := range []memo.Record{read(t, m), kept(t, m), kept(t, newMemo(locktest.NewClient(t, b.Client()), "x"))} {
			require.Equal(t, memo.Done, rec.State)
			require.False(t, rec.Fresh)
			require.Equal(t, "old", string(rec.Value))
		}
		call := begin(t, m, "")
		require.Equal(t, "old", string(refused(t, m).Value))
		require.NoError(t, call.Keep(t.Context(), "do", []byte("new"), time.Hour, time.Minute))
		require.Equal(t, "new", string(kept(t, m).Value))
		time.Sleep(time.Hour)
		require.Equal(t, memo.None, kept(t, m).State)
	})
}

// A machine whose clock is wrong does not take the value for fresh.
func TestFreshByTheServersClock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		m := newMemo(locktest.NewClient(t, b.Client()), "x")
		require.NoError(t, begin(t, m, "").Keep(t.Context(), "do", []byte("old"), 48*time.Hour, time.Minute))
		b.Mini.SetTime(time.Now().Add(24 * time.Hour))
		require.False(t, kept(t, newMemo(locktest.NewClient(t, b.Client()), "x")).Fresh)
	})
}

// What came of the call reaches those who wait for it, whatever it was.
func TestWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(ctx context.Context, m *memo.Memo, c *memo.Call) error
		want memo.Record
		next memo.State // for those who come later
	}{
		{"Keep", func(ctx context.Context, _ *memo.Memo, c *memo.Call) error {
			return c.Keep(ctx, "do", []byte("v"), time.Hour, 0)
		}, memo.Record{State: memo.Done, Value: []byte("v")}, memo.Done},
		{"Fail", func(ctx context.Context, _ *memo.Memo, c *memo.Call) error {
			return c.Fail(ctx, "do", "why", 0)
		}, memo.Record{State: memo.Failed, Text: "why"}, memo.None},
		{"FailKept", func(ctx context.Context, _ *memo.Memo, c *memo.Call) error {
			return c.Fail(ctx, "do", "why", time.Hour)
		}, memo.Record{State: memo.Failed, Text: "why"}, memo.Failed},
		{"Drop", func(ctx context.Context, _ *memo.Memo, c *memo.Call) error { return c.Drop(ctx, "do") }, memo.Record{}, memo.None},
		{"Forget", func(ctx context.Context, m *memo.Memo, c *memo.Call) error {
			if err := m.Forget(ctx, "forget"); err != nil {
				return err
			}
			if err := c.Keep(ctx, "do", []byte("v"), time.Hour, 0); !errors.Is(err, memo.ErrForgotten) {
				return errors.New("it was kept")
			}
			return nil
		}, memo.Record{}, memo.None},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, rdb func() redis.UniversalClient) {
				m, them := newMemo(locktest.NewClient(t, rdb()), "x"), newMemo(locktest.NewClient(t, rdb()), "x")
				call := begin(t, m, "mark")
				seen := refused(t, them)
				ended := make(chan error, 1)
				go func() {
					time.Sleep(20 * time.Millisecond)
					ended <- tt.end(t.Context(), m, call)
				}()
				start := time.Now()
				rec, err := them.Wait(t.Context(), "do", seen)
				require.NoError(t, err)
				require.NoError(t, <-ended)
				if strings.HasSuffix(t.Name(), "FakeTime") {
					assert.Less(t, time.Since(start), time.Second, "it was told")
				}
				assert.Equal(t, tt.want.State, rec.State)
				assert.Equal(t, tt.want.Value, rec.Value)
				assert.Equal(t, tt.want.Text, rec.Text)
				if rec.State != memo.None {
					assert.Equal(t, call.Name(), rec.Call)
					assert.Equal(t, "mark", rec.Mark)
				}
				assert.False(t, read(t, them).Busy)
				assert.Equal(t, tt.next, read(t, them).State)
				if tt.next == memo.None {
					require.NoError(t, begin(t, them, "").Drop(t.Context(), "do"))
				} else {
					assert.Equal(t, tt.next, refused(t, them).State)
				}
			})
		})
	}
}

// Without messages it takes no longer than the recheck.
func TestWaitWithoutMessages(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		m := newMemo(locktest.NewClient(t, b.Client()), "x")
		them := newMemo(locktest.NewClient(t, b.Client(), latchkey.WithPubSub(latchkey.Polling)), "x")
		call := begin(t, m, "")
		seen := refused(t, them)
		time.AfterFunc(time.Second, func() { _ = call.Fail(t.Context(), "do", "why", 0) })
		rec, err := them.Wait(t.Context(), "do", seen)
		require.NoError(t, err)
		require.Equal(t, "why", rec.Text)
	})
}

// An error reaches those who have waited for its call, also when another call runs already.
func TestErrorOfTheCallBefore(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		m, them := newMemo(locktest.NewClient(t, b.Client()), "x"), newMemo(locktest.NewClient(t, b.Client()), "x")
		call := begin(t, m, "")
		seen := refused(t, them)
		require.NoError(t, call.Fail(t.Context(), "do", "why", 0))
		next := begin(t, m, "")
		rec, err := them.Wait(t.Context(), "do", seen)
		require.NoError(t, err)
		require.Equal(t, "why", rec.Text)
		require.NoError(t, next.Drop(t.Context(), "do"))
	})
}

// A call whose process has died is over with its lease, and what it left goes.
func TestDied(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		m, them := newMemo(locktest.NewClient(t, rdb), "x"), newMemo(locktest.NewClient(t, b.Client()), "x")
		call := begin(t, m, "")
		seen := refused(t, them)
		b.Partition(rdb)
		start := time.Now()
		rec, err := them.Wait(t.Context(), "do", seen)
		require.NoError(t, err)
		require.Equal(t, memo.None, rec.State)
		require.InDelta(t, 30, time.Since(start).Seconds(), 1)
		next := begin(t, them, "")
		b.Heal(rdb)
		require.ErrorIs(t, call.Keep(t.Context(), "do", []byte("old"), time.Hour, 0), latchkey.ErrLeaseLost)
		require.Equal(t, memo.None, kept(t, them).State)
		require.NoError(t, next.Keep(t.Context(), "do", []byte("new"), time.Hour, 0))
		require.ErrorIs(t, call.Keep(t.Context(), "do", []byte("old"), time.Hour, 0), latchkey.ErrLeaseLost)
		require.Equal(t, "new", string(kept(t, them).Value))
		require.Len(t, b.Mini.Keys(), 1)
	})
}

// The note of another call is not that of the caller, although it has the lock: nothing
// is kept.
func TestNoteOfAnotherCall(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb func() redis.UniversalClient) {
		m := newMemo(locktest.NewClient(t, rdb()), "x")
		call := begin(t, m, "")
		r, note := rdb(), "{x}:latchkey_flight_call"
		require.NoError(t, r.HSet(t.Context(), note, "call", "other").Err())
		require.ErrorIs(t, call.Keep(t.Context(), "do", []byte("v"), time.Hour, 0), memo.ErrForgotten)
		require.Equal(t, memo.None, kept(t, m).State)
		require.Equal(t, "other", r.HGet(t.Context(), note, "call").Val())
	})
}

// lostBeforeBegin takes the lock away between its acquire and memo/begin, once.
type lostBeforeBegin struct{ take func() }

func (h *lostBeforeBegin) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *lostBeforeBegin) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.see(cmd)
		return next(ctx, cmd)
	}
}

func (h *lostBeforeBegin) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.see(cmds...)
		return next(ctx, cmds)
	}
}

func (h *lostBeforeBegin) see(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if slices.Contains(cmd.Args(), any("the mark")) && h.take != nil {
			h.take()
			h.take = nil
		}
	}
}

// A caller that loses the lock before it can begin has begun nothing.
func TestLostBeforeBegin(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb func() redis.UniversalClient) {
		r, mine := rdb(), redistest.User(t, rdb()) // which has the hook
		mine.AddHook(&lostBeforeBegin{take: func() { r.Del(t.Context(), "{x}:latchkey_flight") }})
		m := newMemo(locktest.NewClient(t, mine), "x")
		call, _, err := m.Begin(t.Context(), "do", "the mark")
		require.ErrorIs(t, err, latchkey.ErrLeaseLost)
		require.Nil(t, call)
		require.Empty(t, r.Keys(t.Context(), "*").Val())
		require.NoError(t, begin(t, m, "the mark").Drop(t.Context(), "do"))
	})
}

// A call that died and that nobody follows leaves nothing when AtMost is over.
func TestNothingIsLeft(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		begin(t, newMemo(locktest.NewClient(t, rdb), "x"), "")
		b.Partition(rdb)
		time.Sleep(atMost + time.Minute)
		require.Empty(t, b.Mini.Keys())
	})
}

// A call that lasts for longer than AtMost has lost its lock.
func TestAtMost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		m := newMemo(locktest.NewClient(t, b.Client()), "x")
		call := begin(t, m, "")
		start := time.Now()
		<-call.Context().Done()
		require.InDelta(t, atMost.Seconds(), time.Since(start).Seconds(), 2)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, call.Keep(t.Context(), "do", nil, time.Hour, 0), latchkey.ErrLeaseLost)
	})
}

// Asking twice is asking once: a reply may be lost.
func TestLostReplies(t *testing.T) {
	for _, script := range []string{"begin", "keep", "fail", "drop"} {
		t.Run(script, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				rdb := b.Client()
				m := newMemo(locktest.NewClient(t, rdb), "x")
				require.NoError(t, begin(t, m, "").Drop(t.Context(), "do")) // it knows the scripts
				require.NoError(t, begin(t, m, "").Fail(t.Context(), "do", "", 0))
				lose := func(n int32) {
					var evals atomic.Int32
					b.Link(rdb).OnCommand(func(args []string) redistest.Act {
						if strings.HasPrefix(strings.ToLower(args[0]), "eval") && evals.Add(1) == n {
							return redistest.LoseRST
						}
						return redistest.Pass
					})
				}
				if script == "begin" {
					lose(2)
				}
				call := begin(t, m, "")
				lose(1)
				switch script {
				case "keep":
					require.NoError(t, call.Keep(t.Context(), "do", []byte("v"), time.Hour, 0))
					require.Equal(t, memo.Done, kept(t, m).State)
				case "fail":
					require.NoError(t, call.Fail(t.Context(), "do", "why", time.Hour))
					require.Equal(t, memo.Failed, read(t, m).State)
				default:
					require.NoError(t, call.Drop(t.Context(), "do"))
					require.Equal(t, memo.None, read(t, m).State)
				}
			})
		})
	}
}

// If Redis does not answer at the end, the error says that the value may have been kept.
func TestInDoubt(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		m := newMemo(locktest.NewClient(t, rdb), "x")
		call := begin(t, m, "")
		b.Partition(rdb)
		err := call.Keep(t.Context(), "do", nil, time.Hour, 0)
		var said *latchkey.Error
		require.ErrorAs(t, err, &said)
		require.True(t, said.MaybeApplied())
		require.Equal(t, "flight", said.Kind)
		require.Equal(t, "x", said.Name)
		b.Heal(rdb)
	})
}

// A caller inside a call does not wait for itself, and has no part of the lock.
func TestInside(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		m := newMemo(c, "x")
		ctx := latchkey.WithHolder(t.Context())
		call, _, err := m.Begin(ctx, "do", "")
		require.NoError(t, err)
		_, _, err = m.Begin(call.Context(), "do", "")
		require.ErrorIs(t, err, latchkey.ErrReentry)
		_, err = m.Wait(call.Context(), "do", memo.Record{})
		require.ErrorIs(t, err, latchkey.ErrReentry)
		other, rec, err := m.Begin(ctx, "do", "")
		require.NoError(t, err)
		require.Nil(t, other)
		require.Equal(t, memo.Running, rec.State)
		require.NoError(t, call.Drop(ctx, "do"))
	})
}

func TestWaitEnds(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		m := newMemo(locktest.NewClient(t, b.Client()), "x")
		c := locktest.NewClient(t, b.Client())
		call := begin(t, m, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Wait(ctx, "do", memo.Record{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		go func() { time.Sleep(time.Second); _ = c.Close() }()
		_, err = newMemo(c, "x").Wait(t.Context(), "do", memo.Record{})
		require.ErrorIs(t, err, latchkey.ErrClosed)
		synctest.Wait()
		require.NoError(t, call.Drop(t.Context(), "do"))
	})
}

// At its memory limit Redis refuses the value; those who wait hear of it.
func TestRefused(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	m, them := newMemo(locktest.NewClient(t, s.Client(t)), "x"), newMemo(locktest.NewClient(t, s.Client(t)), "x")
	call := begin(t, m, "")
	seen := refused(t, them)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := call.Keep(t.Context(), "do", []byte("v"), time.Hour, 0)
	require.ErrorContains(t, err, "OOM")
	rec, err := them.Wait(t.Context(), "do", seen)
	require.NoError(t, err)
	require.Equal(t, memo.Failed, rec.State)
	require.Contains(t, rec.Text, "OOM")
}

// Something else stands under the key.
func TestForeign(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb func() redis.UniversalClient) {
		m := newMemo(locktest.NewClient(t, rdb()), "x")
		for _, value := range []string{"text", "1 2 c 3\nno", "a 2 c 3\nyes", "1 2 c\n"} {
			require.NoError(t, rdb().Set(t.Context(), "{x}:latchkey_flight_value", value, 0).Err())
			_, err := m.Kept(t.Context(), "get")
			require.ErrorIs(t, err, latchkey.ErrKeyConflict, value)
		}
		_, _, err := m.Begin(t.Context(), "do", "")
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		require.NoError(t, rdb().Del(t.Context(), "{x}:latchkey_flight_value").Err())
		require.NoError(t, rdb().HSet(t.Context(), "{x}:latchkey_flight_value", "a", 1).Err())
		_, err = m.Read(t.Context(), "get")
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		_, err = m.Kept(t.Context(), "get")
		require.ErrorIs(t, err, latchkey.ErrKeyConflict)
		require.ErrorContains(t, err, `flight: get "x"`)
	})
}

// A call takes four commands, and a value one.
func TestCommands(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		m := newMemo(locktest.NewClient(t, b.Client()), "x")
		require.NoError(t, begin(t, m, "").Drop(t.Context(), "do"))
		require.NoError(t, begin(t, m, "").Keep(t.Context(), "do", nil, time.Millisecond, 0))
		time.Sleep(time.Second)
		before := b.Commands("")
		require.NoError(t, begin(t, m, "").Keep(t.Context(), "do", nil, time.Hour, 0))
		require.EqualValues(t, 4, b.Commands("")-before)
		kept(t, m)
		require.EqualValues(t, 5, b.Commands("")-before)
		require.EqualValues(t, 1, b.Commands("getrange"))
	})
}

// In a cluster all keys are in one slot.
func TestCluster(t *testing.T) {
	redistest.Long(t, "a cluster")
	cluster := redistest.StartCluster(t, 3)
	c := locktest.NewClient(t, cluster.Client(t))
	for _, name := range []string{"x", "{x}", "a b{c}d", "y"} {
		m := newMemo(c, name)
		call := begin(t, m, "")
		seen := refused(t, m)
		go func() { _ = call.Keep(t.Context(), "do", []byte("v"), time.Hour, 0) }()
		rec, err := m.Wait(t.Context(), "do", seen)
		require.NoError(t, err)
		require.Equal(t, "v", string(rec.Value))
		require.Equal(t, memo.Done, kept(t, m).State)
		require.NoError(t, m.Forget(t.Context(), "forget"))
		require.Equal(t, memo.None, kept(t, m).State)
	}
	_, err := newMemo(c, "a{b").Kept(t.Context(), "get")
	require.ErrorContains(t, err, "hash tag")
}
