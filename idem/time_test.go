package idem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// call calls a handler without a network.
func call(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("x"))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func replayed(w *httptest.ResponseRecorder) bool {
	return w.Header().Get("Idempotency-Replayed") == "true"
}

// onKeys calls f for each key in Redis that ends like this.
func onKeys(t *testing.T, rdb redis.UniversalClient, end string, f func(key string)) {
	t.Helper()
	n := 0
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if strings.HasSuffix(key, end) {
			f(key)
			n++
		}
	}
	require.Positive(t, n, end)
}

// When the lease is lost, the request's context ends. What the handler says then is sent
// and not kept, and does not replace what another one has kept.
func TestLeaseLost(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, b *redistest.Env, c *latchkey.Client) {
		lost := true
		runs := 0
		var h http.Handler
		h = idem.Middleware(c)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			if !lost {
				fmt.Fprint(w, "second")
				return
			}
			onKeys(t, b.Redis, "latchkey_idem", func(key string) { require.NoError(t, b.Redis.Del(t.Context(), key).Err()) })
			<-r.Context().Done()
			require.ErrorIs(t, context.Cause(r.Context()), latchkey.ErrLeaseLost)
			lost = false
			require.Equal(t, "second", call(h, "k").Body.String(), "the next one may run")
			fmt.Fprint(w, "first")
		}))
		require.Equal(t, "first", call(h, "k").Body.String())
		again := call(h, "k")
		require.True(t, replayed(again))
		require.Equal(t, "second", again.Body.String())
		require.Equal(t, 2, runs)
	})
}

// A handler of which nobody knows whether it will end lets the next one in after AtMost.
func TestAtMost(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, _ *redistest.Env, c *latchkey.Client) {
		h := idem.Middleware(c, idem.AtMost(time.Minute))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			fmt.Fprint(w, "done")
		}))
		for range 2 {
			begin := time.Now()
			require.False(t, replayed(call(h, "k")))
			require.InDelta(t, time.Minute, time.Since(begin), float64(time.Second))
		}
	})
}

// A response is kept for as long as TTL says.
func TestTTL(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, _ *redistest.Env, c *latchkey.Client) {
		runs := 0
		h := idem.Middleware(c, idem.TTL(time.Hour))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
		require.Equal(t, http.StatusOK, call(h, "k").Code)
		time.Sleep(time.Hour - time.Second)
		require.True(t, replayed(call(h, "k")))
		time.Sleep(2 * time.Second)
		require.False(t, replayed(call(h, "k")))
		require.Equal(t, 2, runs)
	})
}

// A wait ends at its time, and with its caller; one whose call has failed runs again.
func TestWaitEnds(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, b *redistest.Env, c *latchkey.Client) {
		finish := make(chan int)
		h := idem.Middleware(c, idem.Wait(time.Minute))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(<-finish)
		}))
		codes := make(chan int)
		go func() { codes <- call(h, "k").Code }()
		b.Advance(time.Second)
		begin := time.Now()
		w := call(h, "k")
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, time.Minute, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("x")).WithContext(ctx)
		r.Header.Set("Idempotency-Key", "k")
		begin = time.Now()
		h.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, time.Second, time.Since(begin))

		go func() { codes <- call(h, "k").Code }()
		b.Advance(time.Second)
		finish <- http.StatusBadGateway
		require.Equal(t, http.StatusBadGateway, <-codes)
		b.Advance(0)
		finish <- http.StatusAccepted
		require.Equal(t, http.StatusAccepted, <-codes)
		require.True(t, replayed(call(h, "k")))
	})
}

// When the client is closed, the contexts of handlers end, and nothing is kept.
func TestClose(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := latchkey.New(b.Redis)
		h := idem.Middleware(c)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			require.ErrorIs(t, context.Cause(r.Context()), latchkey.ErrClosed)
			fmt.Fprint(w, "interrupted")
		}))
		closed := make(chan error)
		time.AfterFunc(time.Minute, func() { closed <- c.Close() })
		require.Equal(t, "interrupted", call(h, "k").Body.String())
		require.NoError(t, <-closed)
		require.Equal(t, http.StatusServiceUnavailable, call(h, "k").Code)
		for _, key := range b.Redis.Keys(t.Context(), "*_value").Val() {
			t.Error(key)
		}
	})
}

// Keys is for other protocols.
func TestKeys(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, _ *redistest.Env, c *latchkey.Client) {
		keys := idem.New(c, idem.Name("rpc"))
		ctx := t.Context()
		ran := 0
		do := func(scope, key, request string, keep bool) (string, bool, error) {
			reply, replayed, err := keys.Do(ctx, scope, key, []byte(request), func(ctx context.Context) ([]byte, bool) {
				ran++
				require.NoError(t, ctx.Err())
				return fmt.Append(nil, "reply ", ran), keep
			})
			return string(reply), replayed, err
		}
		for i := range 2 {
			reply, replayed, err := do("ann", "k", "x", false)
			require.NoError(t, err)
			require.False(t, replayed)
			require.Equal(t, fmt.Sprint("reply ", i+1), reply)
		}
		for i := range 2 {
			reply, replayed, err := do("ann", "k", "x", true)
			require.NoError(t, err)
			require.Equal(t, i > 0, replayed)
			require.Equal(t, "reply 3", reply)
		}
		_, _, err := do("ann", "k", "y", true)
		require.ErrorIs(t, err, idem.ErrReused)
		for _, key := range []string{"", "ä", strings.Repeat("k", 256)} {
			_, _, err = do("ann", key, "x", true)
			require.ErrorIs(t, err, idem.ErrKey)
		}
		_, replayed, err := do("bob", "k", "y", true)
		require.NoError(t, err)
		require.False(t, replayed)
		require.Equal(t, 4, ran)

		// A call within one with its key would wait for itself.
		_, _, err = keys.Do(ctx, "", "outer", nil, func(ctx context.Context) ([]byte, bool) {
			_, _, err := keys.Do(ctx, "", "outer", nil, func(context.Context) ([]byte, bool) { return nil, true })
			require.ErrorIs(t, err, latchkey.ErrReentry)
			_, _, err = keys.Do(ctx, "", "inner", nil, func(context.Context) ([]byte, bool) { return nil, true })
			require.NoError(t, err)
			return nil, true
		})
		require.NoError(t, err)
	})
}

// A gone is the ResponseWriter of a client that goes away after the header.
type gone struct{ *httptest.ResponseRecorder }

var errGone = errors.New("the client has gone")

func (gone) Write([]byte) (int, error) { return 0, errGone }

// A handler whose client has gone is told nothing, and what it writes is kept for the
// next. Where nothing is kept, it is told.
func TestWriteErrors(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, _ *redistest.Env, c *latchkey.Client) {
		var failed error
		write := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			failed = nil
			w.Header().Set("Content-Type", "text/plain")
			w.(http.Flusher).Flush()
			for range 4 {
				if n, err := fmt.Fprint(w, "abc"); err != nil {
					failed = err
				} else {
					require.Equal(t, 3, n)
				}
			}
		})
		send := func(h http.Handler, key string) {
			r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("x"))
			r.Header.Set("Idempotency-Key", key)
			h.ServeHTTP(gone{httptest.NewRecorder()}, r)
		}
		h := idem.Middleware(c)(write)
		send(h, "k")
		require.NoError(t, failed)
		again := call(h, "k")
		require.True(t, replayed(again))
		require.Equal(t, "abcabcabcabc", again.Body.String())

		send(idem.Middleware(c, idem.MaxResponse(len("Content-Type")+len("text/plain")+6))(write), "large")
		require.ErrorIs(t, failed, errGone)
	})
}
