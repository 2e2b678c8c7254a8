package flight_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/flight"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

var errBuild = errors.New("no paper")

// inFakeTime runs f in a bubble, with two clients as two processes have them.
func inFakeTime(t *testing.T, f func(t *testing.T, b *redistest.Env, c, other *latchkey.Client)) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		f(t, b, locktest.NewClient(t, b.Client()), locktest.NewClient(t, b.Client()))
	})
}

// counted returns a function that takes a second, and how often it was called.
func counted() (fn func(context.Context) (string, error), calls *atomic.Int32) {
	calls = new(atomic.Int32)
	return func(ctx context.Context) (string, error) {
		n := calls.Add(1)
		select {
		case <-time.After(time.Second):
			return fmt.Sprint("v", n), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, calls
}

// do calls Do, which must return without an error.
func do(t *testing.T, c *latchkey.Client, fn func(context.Context) (string, error), opts ...flight.Option) (v string, shared bool) {
	t.Helper()
	v, shared, err := flight.Do(t.Context(), c, "x", fn, opts...)
	require.NoError(t, err)
	return v, shared
}

// A thousand calls of four clients are one execution, and what it returns is kept.
func TestOneExecution(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		fn, calls := counted()
		var all sync.WaitGroup
		var alone atomic.Int32
		var clients []*latchkey.Client
		for range 4 {
			c := locktest.NewClient(t, b.Client())
			clients = append(clients, c)
			for range 250 {
				all.Go(func() {
					v, shared, err := flight.Do(t.Context(), c, "x", fn, flight.TTL(time.Hour))
					assert.NoError(t, err)
					assert.Equal(t, "v1", v)
					if !shared {
						alone.Add(1)
					}
				})
			}
		}
		start := time.Now()
		all.Wait()
		assert.Less(t, time.Since(start), 2*time.Second)
		require.EqualValues(t, 1, calls.Load())
		require.EqualValues(t, 1, alone.Load())
		assert.Less(t, b.Commands("getrange")+b.Commands("evalsha")+b.Commands("eval"), int64(60), "one of a process asks")
		for _, c := range clients {
			v, ok, err := flight.Get[string](t.Context(), c, "x")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "v1", v)
		}
		time.Sleep(time.Hour)
		_, ok, err := flight.Get[string](t.Context(), clients[0], "x")
		require.NoError(t, err)
		require.False(t, ok)
		v, shared := do(t, clients[0], fn)
		require.Equal(t, "v2", v)
		require.False(t, shared)
	})
}

// A value takes one command, and an execution five.
func TestCommands(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, _ *latchkey.Client) {
		fn, _ := counted()
		do(t, c, fn, flight.TTL(time.Second))
		time.Sleep(time.Minute)
		before := b.Commands("")
		do(t, c, fn)
		require.EqualValues(t, 5, b.Commands("")-before)
		do(t, c, fn)
		require.EqualValues(t, 6, b.Commands("")-before)
	})
}

// A caller that gives up leaves the others alone. When all have, fn's context ends and
// nothing is left.
func TestGiveUp(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, _ *latchkey.Client) {
		fn, calls := counted()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, _, err := flight.Do(ctx, c, "x", fn)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		v, shared := do(t, c, fn)
		require.Equal(t, "v1", v)
		require.True(t, shared)
		all.Wait()
		require.NoError(t, flight.Forget(t.Context(), c, "x"))

		for range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, _, err := flight.Do(ctx, c, "x", fn)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		synctest.Wait()
		require.EqualValues(t, 2, calls.Load())
		require.Empty(t, b.Mini.Keys())
	})
}

// When all callers of the process at it give up, one of another process leads.
func TestNextProcessLeads(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *redistest.Env, c, other *latchkey.Client) {
		fn, calls := counted()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { _, _, _ = flight.Do(ctx, c, "x", fn) })
		synctest.Wait()
		start := time.Now()
		v, shared := do(t, other, fn)
		require.Equal(t, "v2", v)
		require.False(t, shared)
		require.EqualValues(t, 2, calls.Load())
		require.Less(t, time.Since(start), 1200*time.Millisecond)
		all.Wait()
	})
}

// The error of fn goes to all who wait, and a later call has an execution of its own.
func TestError(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *redistest.Env, c, other *latchkey.Client) {
		var calls atomic.Int32
		fails := func(context.Context) (string, error) {
			calls.Add(1)
			time.Sleep(time.Second)
			return "", fmt.Errorf("building: %w", errBuild)
		}
		for _, kept := range []bool{false, true} {
			calls.Store(0)
			var opts []flight.Option
			if kept {
				opts = append(opts, flight.ErrorTTL(time.Minute))
			}
			var all sync.WaitGroup
			var here, there atomic.Int32
			for i, client := range []*latchkey.Client{c, c, other, other} {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					_, shared, err := flight.Do(t.Context(), client, "x", fails, opts...)
					var e *flight.Error
					switch {
					case errors.Is(err, errBuild):
						here.Add(1)
					case errors.As(err, &e):
						there.Add(1)
						assert.Equal(t, "building: no paper", e.Error())
						assert.True(t, shared)
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, calls.Load())
			require.EqualValues(t, 2, here.Load())
			require.EqualValues(t, 2, there.Load())
			_, _, err := flight.Do(t.Context(), c, "x", fails, opts...)
			require.ErrorContains(t, err, "building: no paper")
			if !kept {
				require.EqualValues(t, 2, calls.Load())
				time.Sleep(time.Minute)
				continue
			}
			require.EqualValues(t, 1, calls.Load())
			_, _, err = flight.Do(t.Context(), other, "x", fails)
			require.ErrorContains(t, err, "building: no paper")
			require.EqualValues(t, 1, calls.Load(), "it is kept for all")
			time.Sleep(time.Minute)
			fn, _ := counted()
			v, _ := do(t, c, fn, opts...)
			require.Equal(t, "v1", v)
		}
	})
}

// An old value is served while one caller of all gets a new one.
func TestStale(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, other *latchkey.Client) {
		fn, calls := counted()
		opts := []flight.Option{flight.TTL(time.Minute), flight.Stale(time.Hour)}
		do(t, c, fn, opts...)
		time.Sleep(time.Minute)
		for range 3 {
			for _, client := range []*latchkey.Client{c, other} {
				start := time.Now()
				v, shared := do(t, client, fn, opts...)
				require.Equal(t, "v1", v)
				require.True(t, shared)
				require.Zero(t, time.Since(start))
				synctest.Wait()
			}
		}
		require.EqualValues(t, 2, calls.Load())
		time.Sleep(2 * time.Second)
		v, _ := do(t, c, fn, opts...)
		require.Equal(t, "v2", v)

		// Without Stale it is not used beyond its TTL.
		time.Sleep(time.Minute)
		v, _ = do(t, other, fn, flight.TTL(time.Minute))
		require.Equal(t, "v3", v)
		require.Len(t, b.Mini.Keys(), 1)

		// If the new one fails, the old one stays.
		time.Sleep(time.Minute)
		do(t, c, fn, opts...)
		time.Sleep(2 * time.Minute)
		var failed atomic.Int32
		fails := func(context.Context) (string, error) { failed.Add(1); return "", errBuild }
		for range 3 {
			time.Sleep(time.Second)
			do(t, c, fails, append(opts, flight.ErrorTTL(time.Minute))...)
		}
		synctest.Wait()
		require.EqualValues(t, 1, failed.Load(), "and is not asked for while the error is kept")
		time.Sleep(2 * time.Hour)
		_, _, err := flight.Do(t.Context(), c, "x", fails, opts...)
		require.ErrorIs(t, err, errBuild)
	})
}

// What was begun before Forget is not kept, and goes to its own caller alone.
func TestForget(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *redistest.Env, c, other *latchkey.Client) {
		fn, calls := counted()
		var all sync.WaitGroup
		got := make([]string, 4)
		all.Go(func() { got[0], _ = do(t, c, fn) })
		synctest.Wait()
		all.Go(func() { got[1], _ = do(t, c, fn) })
		all.Go(func() { got[2], _ = do(t, other, fn) })
		time.Sleep(time.Millisecond)
		require.NoError(t, flight.Forget(t.Context(), other, "x"))
		all.Go(func() { got[3], _ = do(t, c, fn) })
		all.Wait()
		require.Equal(t, []string{"v1", "v2", "v2", "v2"}, got)
		require.EqualValues(t, 2, calls.Load())
	})
}

// A process that was paused beyond its lease keeps nothing, and its caller knows that.
func TestPaused(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		c, other := locktest.NewClient(t, rdb), locktest.NewClient(t, b.Client())
		fn, _ := counted()
		var all sync.WaitGroup
		all.Go(func() {
			v, shared, err := flight.Do(t.Context(), c, "x", func(context.Context) (string, error) {
				time.Sleep(time.Minute)
				b.Heal(rdb)
				return "old", nil
			})
			assert.ErrorIs(t, err, latchkey.ErrLeaseLost)
			assert.Equal(t, "old", v)
			assert.False(t, shared)
		})
		synctest.Wait()
		all.Go(func() { // it waits with that call
			v, shared := do(t, c, fn)
			assert.Equal(t, "v1", v)
			assert.True(t, shared)
		})
		synctest.Wait()
		b.Partition(rdb)
		v, _ := do(t, other, fn)
		require.Equal(t, "v1", v)
		all.Wait()
		v, _ = do(t, other, fn)
		require.Equal(t, "v1", v)
	})
}

// A panic goes on in one caller of the process, with its stack; others get an error.
func TestPanic(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, other *latchkey.Client) {
		var all sync.WaitGroup
		var panics, errs atomic.Int32
		for i, client := range []*latchkey.Client{c, c, other} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				defer func() {
					if p := recover(); p != nil {
						panics.Add(1)
						err, ok := p.(error)
						assert.True(t, ok)
						assert.ErrorIs(t, err, errBuild)
						assert.ErrorContains(t, err, "flight_test.go")
					}
				}()
				_, _, err := flight.Do(t.Context(), client, "x", func(context.Context) (string, error) {
					time.Sleep(time.Second)
					panic(errBuild)
				})
				var e *flight.Error
				if assert.ErrorAs(t, err, &e) {
					assert.Equal(t, "panic: no paper", e.Text)
				}
				errs.Add(1)
			})
		}
		all.Wait()
		require.EqualValues(t, 1, panics.Load())
		require.EqualValues(t, 2, errs.Load())
		time.Sleep(time.Minute)
		require.Empty(t, b.Mini.Keys())
	})
}

func TestGoexit(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *redistest.Env, c, other *latchkey.Client) {
		var all sync.WaitGroup
		var exits, errs atomic.Int32
		for i, client := range []*latchkey.Client{c, c, other} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				exits.Add(1)
				_, _, err := flight.Do(t.Context(), client, "x", func(context.Context) (string, error) {
					time.Sleep(time.Second)
					runtime.Goexit()
					return "", nil
				})
				assert.ErrorContains(t, err, "runtime.Goexit")
				exits.Add(-1)
				errs.Add(1)
			})
		}
		all.Wait()
		require.EqualValues(t, 1, exits.Load())
		require.EqualValues(t, 2, errs.Load())
	})
}

// A value that cannot be kept is an error for all, and its own caller has it.
func TestNotKept(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, other *latchkey.Client) {
		large := func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return strings.Repeat("x", 1<<20), nil
		}
		var all sync.WaitGroup
		all.Go(func() {
			v, _, err := flight.Do(t.Context(), c, "x", large)
			assert.ErrorIs(t, err, flight.ErrTooLarge)
			assert.ErrorContains(t, err, `flight: do "x": the value is too large: 1048578 bytes, the most is 1048576`)
			assert.Len(t, v, 1<<20)
		})
		synctest.Wait()
		_, _, err := flight.Do(t.Context(), other, "x", large)
		require.ErrorContains(t, err, "the value is too large")
		all.Wait()
		v, _, err := flight.Do(t.Context(), c, "x", large, flight.MaxSize(1<<21))
		require.NoError(t, err)
		require.Len(t, v, 1<<20)

		_, _, err = flight.Do(t.Context(), c, "y", func(context.Context) (chan int, error) { return nil, nil })
		require.ErrorContains(t, err, "cannot be encoded")
		_, _, err = flight.Do(t.Context(), c, "x", func(context.Context) (int, error) { return 0, nil })
		require.ErrorContains(t, err, "cannot be decoded")
		_, _, err = flight.Get[int](t.Context(), c, "x")
		require.ErrorContains(t, err, "cannot be decoded")
		time.Sleep(time.Hour)
		require.Empty(t, b.Mini.Keys())
	})
}

func TestCodec(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, _ *latchkey.Client) {
		plain := flight.Codec(
			func(v any) ([]byte, error) { return v.([]byte), nil },
			func(data []byte, v any) error { *v.(*[]byte) = data; return nil },
		)
		_, _, err := flight.Do(t.Context(), c, "x", func(context.Context) ([]byte, error) { return []byte("\x00a"), nil }, plain)
		require.NoError(t, err)
		v, ok, err := flight.Get[[]byte](t.Context(), c, "x", plain)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "\x00a", string(v))
		text, err := b.Mini.Get("{x}:latchkey_flight_value")
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(text, "\n\x00a"))
	})
}

// If Redis does not answer, fn is not called.
func TestRedisIsDown(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		c := locktest.NewClient(t, rdb)
		fn, calls := counted()
		b.Partition(rdb)
		_, _, err := flight.Do(t.Context(), c, "x", fn)
		require.Error(t, err)
		require.Zero(t, calls.Load())
		b.Heal(rdb)
		do(t, c, fn)
		require.NoError(t, c.Close())
		_, _, err = flight.Do(t.Context(), c, "y", fn)
		require.ErrorIs(t, err, latchkey.ErrClosed)
	})
}

// A fn that lasts for longer than AtMost loses its lock, and the next one begins.
func TestAtMost(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *redistest.Env, c, other *latchkey.Client) {
		var all sync.WaitGroup
		all.Go(func() {
			_, _, err := flight.Do(t.Context(), c, "x", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", context.Cause(ctx)
			}, flight.AtMost(time.Minute))
			assert.ErrorIs(t, err, latchkey.ErrLeaseLost)
		})
		synctest.Wait()
		fn, _ := counted()
		start := time.Now()
		do(t, other, fn)
		require.InDelta(t, 61, time.Since(start).Seconds(), 1)
		all.Wait()
	})
}

func TestMisuse(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *redistest.Env, c, _ *latchkey.Client) {
		fn, calls := counted()
		ctx := t.Context()
		_, _, err := flight.Do(ctx, c, "", fn)
		require.ErrorContains(t, err, "the name is empty")
		_, _, err = flight.Do(ctx, nil, "x", fn)
		require.ErrorContains(t, err, "the client is nil")
		for _, tt := range []struct {
			opt  flight.Option
			want string
		}{
			{flight.TTL(0), "TTL of 0s: the least is 1s"},
			{flight.TTL(1 << 62), "the most is"},
			{flight.ErrorTTL(0), "ErrorTTL of 0s"},
			{flight.Stale(-1), "Stale of -1ns"},
			{flight.AtMost(time.Millisecond), "AtMost of 1ms: the least is 3ms"},
			{flight.MaxSize(0), "MaxSize of 0"},
			{flight.Codec(nil, nil), "Codec: a function is nil"},
		} {
			_, _, err := flight.Do(ctx, c, "x", fn, tt.opt)
			require.ErrorContains(t, err, tt.want)
		}
		require.Zero(t, calls.Load())
		_, _, err = flight.Do(ctx, c, "x", func(ctx context.Context) (string, error) {
			v, _, err := flight.Do(ctx, c, "x", fn)
			return v, err
		})
		require.ErrorIs(t, err, latchkey.ErrReentry)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, _, err = flight.Do(ended, c, "x", fn)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Minute)
		require.Empty(t, b.Mini.Keys())
	})
}

// flightKeys sets how many keys TestManyKeys makes: -flight.keys=1000000 takes minutes.
var flightKeys = flag.Int("flight.keys", 0, "keys of TestManyKeys")

// Many keys leave values alone, each with a TTL.
func TestManyKeys(t *testing.T) {
	s := redistest.Start(t)
	c := locktest.NewClient(t, s.Client(t))
	keys := redistest.Many(10_000, 500)
	if *flightKeys > 0 {
		keys = *flightKeys
	}
	const ttl = 12 * time.Hour // longer than the test takes
	todo := make(chan int)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range todo {
				v, _, err := flight.Do(t.Context(), c, fmt.Sprint("k", i), func(context.Context) (int, error) { return i, nil }, flight.TTL(ttl))
				assert.NoError(t, err)
				assert.Equal(t, i, v)
			}
		})
	}
	for i := range keys {
		todo <- i
	}
	close(todo)
	all.Wait()

	rdb := s.Client(t)
	value := regexp.MustCompile(`^\{k\d+\}:latchkey_flight_value$`)
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		page, next, err := rdb.Scan(t.Context(), cursor, "*", 1000).Result()
		require.NoError(t, err)
		left := make([]*redis.DurationCmd, len(page))
		_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i, key := range page {
				left[i] = p.PTTL(t.Context(), key)
			}
			return nil
		})
		if len(page) > 0 {
			require.NoError(t, err)
		}
		for i, key := range page {
			if !value.MatchString(key) || left[i].Val() <= 0 || left[i].Val() > ttl {
				t.Fatalf("%s is left, for %v", key, left[i].Val())
			}
			seen[key] = true
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	require.Len(t, seen, keys)
	require.EqualValues(t, keys, rdb.DBSize(t.Context()).Val())
}

// On real servers, in a cluster too, with all of pub/sub.
func TestOnServers(t *testing.T) {
	for _, kind := range []string{"Single", "Cluster"} {
		t.Run(kind, func(t *testing.T) {
			var client func() redis.UniversalClient
			if kind == "Cluster" {
				redistest.Long(t, "a cluster")
				s := redistest.StartCluster(t, 3)
				client = func() redis.UniversalClient { return s.Client(t) }
			} else {
				s := redistest.Start(t)
				client = func() redis.UniversalClient { return s.Client(t) }
			}
			var calls atomic.Int32
			var all sync.WaitGroup
			for range 4 {
				c := locktest.NewClient(t, client(), latchkey.WithKeyPrefix("app:"))
				for range 50 {
					all.Go(func() {
						v, _, err := flight.Do(t.Context(), c, "x", func(context.Context) (int32, error) {
							time.Sleep(100 * time.Millisecond)
							return calls.Add(1), nil
						})
						assert.NoError(t, err)
						assert.EqualValues(t, 1, v)
					})
				}
				all.Go(func() {
					_, _, err := flight.Do(t.Context(), c, "y", func(context.Context) (int, error) {
						time.Sleep(100 * time.Millisecond)
						return 0, errBuild
					})
					assert.ErrorContains(t, err, "no paper")
				})
			}
			all.Wait()
			require.EqualValues(t, 1, calls.Load())
			c := locktest.NewClient(t, client(), latchkey.WithKeyPrefix("app:"))
			require.NoError(t, flight.Forget(t.Context(), c, "x"))
			_, ok, err := flight.Get[int](t.Context(), c, "x")
			require.NoError(t, err)
			require.False(t, ok)
		})
	}
}
