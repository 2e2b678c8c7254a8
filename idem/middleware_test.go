package idem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A site is a server of HTTP with a handler behind the middleware.
type site struct {
	*httptest.Server
	ran atomic.Int64 // how often the handler ran
}

func serve(t *testing.T, c *latchkey.Client, handler http.HandlerFunc, opts ...idem.Option) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(idem.Middleware(c, opts...)(s.count(handler)))
	t.Cleanup(s.Close)
	return s
}

func (s *site) count(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ran.Add(1)
		handler(w, r)
	})
}

// A reply is what a client gets.
type reply struct {
	status   int
	header   http.Header
	body     string
	replayed bool
}

// problem returns the code of a refusal.
func (r reply) problem(t *testing.T) string {
	t.Helper()
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), r.body)
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &p))
	require.Equal(t, r.status, p.Status)
	require.NotEmpty(t, p.Title)
	return p.Code
}

func (s *site) request(t testing.TB, method, path, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func (s *site) do(req *http.Request) (reply, error) { return get(s.Client(), req) }

func get(client *http.Client, req *http.Request) (reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), resp.Header.Get("Idempotency-Replayed") == "true"}, err
}

func (s *site) send(t testing.TB, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := s.do(s.request(t, method, path, body, header...))
	require.NoError(t, err)
	return r
}

func (s *site) post(t testing.TB, key, body string) reply {
	t.Helper()
	return s.send(t, http.MethodPost, "/pay", body, "Idempotency-Key", key)
}

// onRedis returns a client on a real server.
func onRedis(t *testing.T, opts ...latchkey.Option) (*latchkey.Client, *redis.Client, *redistest.Server) {
	t.Helper()
	s := redistest.Start(t)
	rdb := s.Client(t)
	return locktest.NewClient(t, rdb, opts...), rdb, s
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	w.Header().Add("X-Thing", "one")
	w.Header().Add("X-Thing", "two")
	w.Header().Set("Location", r.URL.String())
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s %s", r.Method, body)
}

// A finished request is replayed: status, header and body.
func TestReplay(t *testing.T) {
	c, rdb, _ := onRedis(t)
	s := serve(t, c, echo, idem.Name("app:pay"), idem.Scope(func(*http.Request) string { return "user-secret" }))
	for _, key := range []string{"6f1c", "key-secret", `"a \"b\" \\"`} {
		before := s.ran.Load()
		first := s.post(t, key, "body-secret")
		require.Equal(t, http.StatusCreated, first.status)
		require.Equal(t, "POST body-secret", first.body)
		require.False(t, first.replayed)
		for range 3 {
			again := s.post(t, key, "body-secret")
			require.True(t, again.replayed)
			again.header.Del("Idempotency-Replayed")
			again.header.Set("Date", first.header.Get("Date"))
			require.Equal(t, first.header, again.header)
			require.Equal(t, first.status, again.status)
			require.Equal(t, first.body, again.body)
		}
		require.Equal(t, before+1, s.ran.Load())
	}
	require.True(t, s.post(t, `"6f1c"`, "body-secret").replayed, "quotes make no other key")

	keys := rdb.Keys(t.Context(), "*").Val()
	require.Len(t, keys, 3)
	for _, key := range keys {
		require.Regexp(t, `^\{app:pay:[-\w]{43}\}:latchkey_idem_value$`, key)
		left := rdb.PTTL(t.Context(), key).Val()
		require.Greater(t, left, 23*time.Hour)
		require.LessOrEqual(t, left, 24*time.Hour)
		require.NotContains(t, rdb.Get(t.Context(), key).Val(), "user-secret")
	}
}

// Nothing of a request is in Redis but hashes, while it runs and afterwards.
func TestNothingOfTheRequestIsStored(t *testing.T) {
	c, rdb, _ := onRedis(t)
	var seen []string
	look := func() {
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			seen = append(seen, key, rdb.Get(t.Context(), key).Val())
			seen = append(seen, fmt.Sprint(rdb.HGetAll(t.Context(), key).Val()))
		}
	}
	s := serve(t, c, func(http.ResponseWriter, *http.Request) { look() }, idem.Scope(func(*http.Request) string { return "secret" }))
	s.send(t, http.MethodPost, "/secret", "secret", "Idempotency-Key", "secret", "Authorization", "secret")
	look()
	require.Len(t, seen, 3*3, "a lock and a note, and then the value: %q", seen)
	require.NotContains(t, fmt.Sprint(seen), "secret")
}

// What runs is not run beside it.
func TestUnderWay(t *testing.T) {
	c, _, _ := onRedis(t)
	running, finish := make(chan bool), make(chan bool)
	s := serve(t, c, func(w http.ResponseWriter, r *http.Request) {
		running <- true
		<-finish
		echo(w, r)
	}, idem.Docs("https://example.com/keys"))
	first := make(chan reply)
	go func() {
		r, _ := s.do(s.request(t, http.MethodPost, "/pay", "x", "Idempotency-Key", "k"))
		first <- r
	}()
	<-running
	r := s.post(t, "k", "x")
	require.Equal(t, http.StatusConflict, r.status)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Equal(t, "under-way", r.problem(t))
	require.Contains(t, r.body, `"type":"https://example.com/keys"`)
	require.Equal(t, "key-reused", s.post(t, "k", "y").problem(t), "also while it runs")
	finish <- true
	require.Equal(t, http.StatusCreated, (<-first).status)
	require.True(t, s.post(t, "k", "x").replayed)
	require.EqualValues(t, 1, s.ran.Load())
}

// With Wait, it gets the response of the one that runs.
func TestWait(t *testing.T) {
	c, _, server := onRedis(t)
	other := locktest.NewClient(t, server.Client(t))
	running, finish := make(chan bool), make(chan bool)
	handler := func(w http.ResponseWriter, r *http.Request) {
		running <- true
		<-finish
		echo(w, r)
	}
	sites := []*site{serve(t, c, handler, idem.Wait(time.Hour)), serve(t, other, handler, idem.Wait(time.Hour))}
	replies := make(chan reply)
	for i := range 10 {
		s := sites[i%2]
		go func() {
			r, _ := s.do(s.request(t, http.MethodPost, "/pay", "x", "Idempotency-Key", "k"))
			replies <- r
		}()
	}
	<-running
	require.Equal(t, http.StatusUnprocessableEntity, sites[0].post(t, "k", "y").status)
	finish <- true
	replayed := 0
	for range 10 {
		r := <-replies
		require.Equal(t, "POST x", r.body)
		if r.replayed {
			replayed++
		}
	}
	require.Equal(t, 9, replayed)
	require.EqualValues(t, 1, sites[0].ran.Load()+sites[1].ran.Load())
}

// In a cluster all keys of a request are in one slot.
func TestCluster(t *testing.T) {
	redistest.Long(t, "a cluster")
	cluster := redistest.StartCluster(t, 3)
	running, finish := make(chan bool), make(chan bool)
	handler := func(w http.ResponseWriter, r *http.Request) {
		running <- true
		<-finish
		echo(w, r)
	}
	var sites []*site
	for range 2 {
		c := locktest.NewClient(t, cluster.Client(t), latchkey.WithKeyPrefix("app:"))
		sites = append(sites, serve(t, c, handler, idem.Wait(time.Hour)))
	}
	replies := make(chan reply)
	for i := range 6 { // three keys, and each at both
		go func() {
			r, _ := sites[i%2].do(sites[i%2].request(t, http.MethodPost, "/pay", "x", "Idempotency-Key", fmt.Sprint(i/2)))
			replies <- r
		}()
	}
	for range 3 {
		<-running
	}
	close(finish)
	replayed := 0
	for range 6 {
		r := <-replies
		require.Equal(t, "POST x", r.body)
		if r.replayed {
			replayed++
		}
	}
	require.Equal(t, 3, replayed)
	require.EqualValues(t, 3, sites[0].ran.Load()+sites[1].ran.Load())
}

// A key is for one request.
func TestReused(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, echo)
	require.Equal(t, http.StatusCreated, s.send(t, http.MethodPost, "/pay?a=1", "x", "Idempotency-Key", "k").status)
	for _, o := range []struct{ method, path, body string }{
		{http.MethodPost, "/pay?a=1", "y"},
		{http.MethodPost, "/pay?a=1", ""},
		{http.MethodPost, "/pay?a=2", "x"},
		{http.MethodPost, "/pay", "x"},
		{http.MethodPost, "/pay%3Fa=1", "x"},
		{http.MethodPost, "/pay/?a=1", "x"},
		{http.MethodPatch, "/pay?a=1", "x"},
	} {
		r := s.send(t, o.method, o.path, o.body, "Idempotency-Key", "k")
		require.Equal(t, http.StatusUnprocessableEntity, r.status, o)
		require.Equal(t, "key-reused", r.problem(t))
	}
	require.True(t, s.send(t, http.MethodPost, "/pay?a=1", "x", "Idempotency-Key", "k").replayed)
	require.EqualValues(t, 1, s.ran.Load())
}

// Two users have keys of their own, whatever their names and keys look like.
func TestScope(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, echo, idem.Scope(func(r *http.Request) string { return r.Header.Get("X-User") }))
	n := 0
	for _, o := range [][2]string{{"ann", "k"}, {"bob", "k"}, {"", "k"}, {"a", "nnk"}, {"an", "nk"}, {"ann:", "k"}, {"ann", ":k"}} {
		n++
		require.False(t, s.send(t, http.MethodPost, "/", "", "Idempotency-Key", o[1], "X-User", o[0]).replayed, o)
		require.True(t, s.send(t, http.MethodPost, "/", "", "Idempotency-Key", o[1], "X-User", o[0]).replayed, o)
	}
	require.EqualValues(t, n, s.ran.Load())
}

// Requests without a key, and those that cannot have one.
func TestMissingAndInvalid(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, echo)
	strict := serve(t, c, echo, idem.Required(), idem.Methods(http.MethodPut))
	require.Equal(t, http.StatusCreated, s.send(t, http.MethodPost, "/", "").status)
	require.Equal(t, http.StatusCreated, s.send(t, http.MethodGet, "/", "", "Idempotency-Key", "", "Idempotency-Key", "").status)
	require.EqualValues(t, 2, s.ran.Load())
	r := strict.send(t, http.MethodPut, "/", "")
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Equal(t, "key-missing", r.problem(t))
	require.Equal(t, http.StatusCreated, strict.send(t, http.MethodPost, "/", "").status, "another method")
	require.EqualValues(t, 1, strict.ran.Load())
	for _, bad := range []string{"", `""`, `"a`, `"a"b`, `"a";v=1`, "a b", "a,b", `"a", "b"`, `a"`, "ä", `"ä"`, `"\a"`, strings.Repeat("k", 256)} {
		r := s.post(t, bad, "")
		require.Equal(t, http.StatusBadRequest, r.status, bad)
		require.Equal(t, "key-invalid", r.problem(t), bad)
	}
	r = s.send(t, http.MethodPost, "/", "", "Idempotency-Key", "a", "Idempotency-Key", "a")
	require.Equal(t, "key-invalid", r.problem(t))
	require.EqualValues(t, 2, s.ran.Load())
	require.Equal(t, http.StatusCreated, s.post(t, strings.Repeat("k", 255), "").status)
}

// Which statuses are kept.
func TestStatuses(t *testing.T) {
	c, _, _ := onRedis(t)
	answer := func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, err := fmt.Sscan(r.URL.Query().Get("status"), &status)
		if err != nil {
			panic(err)
		}
		w.WriteHeader(status)
	}
	for _, tt := range []struct {
		opts         []idem.Option
		kept, unkept []int
	}{
		{nil, []int{200, 204, 303, 400, 402, 403, 404, 412, 422}, []int{401, 408, 409, 423, 425, 429, 500, 503, 599, 900}},
		{[]idem.Option{idem.Name("own"), idem.Statuses(func(s int) bool { return s == 503 })}, []int{503}, []int{200, 500}},
	} {
		s := serve(t, c, answer, tt.opts...)
		s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, status := range append(tt.kept, tt.unkept...) {
			before := s.ran.Load()
			path := fmt.Sprint("/?status=", status)
			for i := range int64(3) {
				r := s.send(t, http.MethodPost, path, "", "Idempotency-Key", fmt.Sprint(status))
				require.Equal(t, status, r.status)
				require.Equal(t, i > 0 && s.ran.Load() == before+1, r.replayed)
			}
			want := int64(1)
			for _, u := range tt.unkept {
				if u == status {
					want = 3
				}
			}
			require.Equal(t, want, s.ran.Load()-before, status)
		}
	}
}

// A panic is not kept, and goes on.
func TestPanic(t *testing.T) {
	c, _, _ := onRedis(t)
	mw := idem.Middleware(c)
	for _, value := range []any{http.ErrAbortHandler, "no ink"} {
		got := make(chan any, 2)
		broken := atomic.Bool{}
		broken.Store(true)
		s := &site{}
		inner := mw(s.count(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "half of")
			if broken.Load() {
				panic(value)
			}
			fmt.Fprint(w, " it")
		}))
		s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if v := recover(); v != nil {
					got <- v
					panic(http.ErrAbortHandler) // without a log
				}
			}()
			inner.ServeHTTP(w, r)
		}))
		defer s.Close()
		key := fmt.Sprintf("%T", value)
		_, err := s.do(s.request(t, http.MethodPost, "/", "", "Idempotency-Key", key))
		require.Error(t, err)
		require.Equal(t, value, <-got)
		broken.Store(false)
		require.Equal(t, "half of it", s.send(t, http.MethodPost, "/", "", "Idempotency-Key", key).body)
		require.EqualValues(t, 2, s.ran.Load())
	}
}

// Bodies above the bound.
func TestLargeRequest(t *testing.T) {
	c, _, _ := onRedis(t)
	read := func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}
	s := serve(t, c, read, idem.MaxRequest(10))
	pass := serve(t, c, read, idem.MaxRequest(10), idem.Oversize(idem.Pass), idem.Name("pass"))
	chunked := func(s *site, body string) reply {
		req := s.request(t, http.MethodPost, "/", "", "Idempotency-Key", "c"+body)
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		r, err := s.do(req)
		require.NoError(t, err)
		return r
	}
	exact, large := "0123456789", "0123456789a"
	for _, send := range []func(s *site, body string) reply{chunked, func(s *site, body string) reply { return s.post(t, body, body) }} {
		before := s.ran.Load()
		require.Equal(t, "10 <nil>", send(s, exact).body)
		r := send(s, large)
		require.Equal(t, http.StatusRequestEntityTooLarge, r.status)
		require.Equal(t, "body-too-large", r.problem(t))
		require.Equal(t, before+1, s.ran.Load())

		before = pass.ran.Load()
		for range 2 {
			require.Equal(t, "10 <nil>", send(pass, exact).body)
			require.Equal(t, "11 <nil>", send(pass, large).body)
		}
		require.Equal(t, before+3, pass.ran.Load())
	}
	bounded := httptest.NewServer(http.MaxBytesHandler(idem.Middleware(c)(http.HandlerFunc(read)), 5))
	defer bounded.Close()
	b := &site{Server: bounded}
	require.Equal(t, "body-too-large", b.post(t, "bounded", exact).problem(t), "a bound before the middleware")
}

// Responses above the bound are sent. With Refuse it is known that there was one.
func TestLargeResponse(t *testing.T) {
	c, _, _ := onRedis(t)
	write := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X", r.Header.Get("X-Want"))
		w.WriteHeader(http.StatusAccepted)
		for _, b := range body {
			_, err := w.Write([]byte{b})
			if err != nil {
				panic(err)
			}
		}
	}
	const room = len("Content-Type") + len("text/plain") + len("X") + 10
	s := serve(t, c, write, idem.MaxResponse(room))
	pass := serve(t, c, write, idem.MaxResponse(room), idem.Oversize(idem.Pass), idem.Name("pass"))
	ask := func(s *site, key, header, body string) reply {
		r := s.send(t, http.MethodPost, "/", body, "Idempotency-Key", key, "X-Want", header)
		return r
	}
	for i, tt := range []struct {
		header, body string
		fits         bool
	}{
		{"", "0123456789", true},
		{"01234", "56789", true},
		{"0123456789", "", true},
		{"", "0123456789a", false},
		{"01234", "56789a", false},
		{"0123456789a", "", false},
		{"", strings.Repeat("0123456789", 1000), false},
	} {
		key := fmt.Sprint(i)
		for _, s := range []*site{s, pass} {
			before := s.ran.Load()
			r := ask(s, key, tt.header, tt.body)
			require.Equal(t, http.StatusAccepted, r.status)
			require.Equal(t, tt.body, r.body)
			require.Equal(t, tt.header, r.header.Get("X"))
			again := ask(s, key, tt.header, tt.body)
			switch {
			case tt.fits:
				require.True(t, again.replayed)
				require.Equal(t, tt.body, again.body)
				require.Equal(t, before+1, s.ran.Load())
			case s == pass:
				require.Equal(t, tt.body, again.body)
				require.Equal(t, before+2, s.ran.Load())
			default:
				require.Equal(t, http.StatusConflict, again.status)
				require.Equal(t, "response-too-large", again.problem(t))
				require.Empty(t, again.header.Get("Retry-After"))
				require.Contains(t, again.body, "202")
				require.Equal(t, before+1, s.ran.Load())
			}
		}
	}
}

// What is flushed is sent at once, and kept.
func TestFlush(t *testing.T) {
	c, _, _ := onRedis(t)
	more := make(chan bool)
	s := serve(t, c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "one ")
		w.(http.Flusher).Flush()
		<-more
		w.Header().Set("X-Late", "too late")
		fmt.Fprint(w, "two ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		<-more
		fmt.Fprint(w, "three")
		w.Header().Set("X-Sum", "3")
	})
	resp, err := s.Client().Do(s.request(t, http.MethodPost, "/", "", "Idempotency-Key", "k"))
	require.NoError(t, err)
	defer resp.Body.Close()
	b := make([]byte, 4)
	for _, want := range []string{"one ", "two "} {
		_, err = io.ReadFull(resp.Body, b)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
		more <- true
	}
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "three", string(rest))
	require.Equal(t, "3", resp.Trailer.Get("X-Sum"))
	require.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Empty(t, resp.Header.Get("X-Late"))

	r := s.send(t, http.MethodPost, "/", "", "Idempotency-Key", "k")
	require.True(t, r.replayed)
	require.Equal(t, "one two three", r.body)
	require.Equal(t, resp.Header.Get("Content-Type"), r.header.Get("Content-Type"))
	require.Empty(t, r.header.Get("X-Late"))
	require.Empty(t, r.header.Get("X-Sum"))
}

// Without Flush, trailers and fields set too late are as they are without the middleware.
func TestTrailer(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Early", "yes")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Early", "no")
		w.Header().Set("X-Late", "too late")
		w.Header().Set("X-Sum", "4")
		w.Header().Set(http.TrailerPrefix+"X-More", "5")
	})
	resp, err := s.Client().Do(s.request(t, http.MethodPost, "/", "", "Idempotency-Key", "k"))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Equal(t, "4", resp.Trailer.Get("X-Sum"))
	require.Equal(t, "5", resp.Trailer.Get("X-More"))
	require.Equal(t, "yes", resp.Header.Get("X-Early"))
	require.Empty(t, resp.Header.Get("X-Late"))
	r := s.send(t, http.MethodPost, "/", "", "Idempotency-Key", "k")
	require.True(t, r.replayed)
	require.Equal(t, "yes", r.header.Get("X-Early"))
	require.Empty(t, r.header.Get("X-Late"))
}

// A connection that is hijacked is the handler's, and nothing is kept.
func TestHijack(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, err = w.Write([]byte("x"))
		if !errors.Is(err, http.ErrHijacked) {
			panic(err)
		}
		fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		rw.Flush()
	}, idem.Wait(time.Hour)) // the client has its response before the handler returns
	for range 2 {
		r := s.post(t, "k", "")
		require.Equal(t, "hi", r.body)
		require.False(t, r.replayed)
	}
	require.EqualValues(t, 2, s.ran.Load())
}

// Informational responses are sent, and not kept.
func TestInformational(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
		w.WriteHeader(http.StatusOK) // too late
	})
	for i := range 2 {
		hints := 0
		req := s.request(t, http.MethodPost, "/", "", "Idempotency-Key", "k")
		r, err := s.do(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints++
				if code != http.StatusEarlyHints || h.Get("Link") == "" {
					t.Error(code, h)
				}
				return nil
			},
		})))
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, r.status)
		require.Empty(t, r.header.Get("Link"))
		require.Equal(t, i > 0, r.replayed)
		require.Equal(t, 1-i, hints)
	}
}

// Which fields of the header are kept.
func TestHeaders(t *testing.T) {
	c, _, _ := onRedis(t)
	set := func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Set-Cookie", "a=b")
		h.Set("X-Own", "1")
		h.Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
		h.Set("Proxy-Authenticate", "Basic")
		h["x-raw"] = []string{"1"}
		h["Content-Type"] = nil // none is to be guessed
		fmt.Fprint(w, "<html>")
	}
	n := 0
	with := func(opts ...idem.Option) *site {
		s := &site{}
		inner := idem.Middleware(c, opts...)(s.count(set))
		s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.Header().Set("X-Request-Id", fmt.Sprint(n))
			inner.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	s := with()
	first := s.post(t, "k", "")
	require.Equal(t, "a=b", first.header.Get("Set-Cookie"))
	require.Empty(t, first.header.Get("Content-Type"))
	again := s.post(t, "k", "")
	require.True(t, again.replayed)
	require.Empty(t, again.header.Get("Content-Type"))
	require.Equal(t, "1", again.header.Get("X-Own"))
	require.Equal(t, "1", again.header.Get("X-Raw"))
	require.Equal(t, "2", again.header.Get("X-Request-Id"), "that is of this request")
	require.Empty(t, again.header.Get("Set-Cookie"))
	require.Empty(t, again.header.Get("Proxy-Authenticate"))
	require.NotEqual(t, first.header.Get("Date"), again.header.Get("Date"))

	s = with(idem.Name("own"), idem.Headers(func(name string) bool { return name == "Set-Cookie" }))
	s.post(t, "k", "")
	again = s.post(t, "k", "")
	require.True(t, again.replayed)
	require.Equal(t, "a=b", again.header.Get("Set-Cookie"))
	require.Empty(t, again.header.Get("X-Own"))
}

// A request of another method may have a key where it is asked for; HEAD has no body.
func TestHead(t *testing.T) {
	c, _, _ := onRedis(t)
	s := serve(t, c, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		fmt.Fprint(w, "body")
	}, idem.Methods(http.MethodHead, http.MethodGet))
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		for i := range 2 {
			r := s.send(t, method, "/", "", "Idempotency-Key", method)
			require.Equal(t, "4", r.header.Get("Content-Length"))
			require.Equal(t, i > 0, r.replayed)
			require.Equal(t, method == http.MethodGet, r.body == "body")
		}
	}
}

// If Redis cannot be reached, the handler does not run unless it was asked to.
func TestOutage(t *testing.T) {
	var log bytes.Buffer
	c, _, server := onRedis(t, latchkey.WithAnswerTimeout(50*time.Millisecond), latchkey.WithUnlockTimeout(50*time.Millisecond),
		latchkey.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	s := serve(t, c, echo)
	pass := serve(t, c, echo, idem.Outage(idem.Pass))
	s.post(t, "before", "")
	server.Kill()
	r := s.post(t, "k", "x")
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "unavailable", r.problem(t))
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.EqualValues(t, 1, s.ran.Load())
	require.Contains(t, log.String(), "a key could not be looked up")
	require.Equal(t, "POST x", pass.post(t, "k", "x").body)
	require.EqualValues(t, 1, pass.ran.Load())
}

// If Redis goes while the handler runs, its response is sent: it has happened.
func TestOutageMeanwhile(t *testing.T) {
	c, _, server := onRedis(t, latchkey.WithAnswerTimeout(50*time.Millisecond), latchkey.WithUnlockTimeout(50*time.Millisecond))
	s := serve(t, c, func(w http.ResponseWriter, r *http.Request) {
		server.Kill()
		echo(w, r)
	})
	r := s.post(t, "k", "x")
	require.Equal(t, http.StatusCreated, r.status)
	require.Equal(t, "POST x", r.body)
}

// A handler goes on when its client goes away, and its response is kept for the next.
func TestClientGoesAway(t *testing.T) {
	c, _, _ := onRedis(t)
	running, gone := make(chan context.Context, 2), make(chan bool)
	type key struct{}
	s := &site{}
	inner := idem.Middleware(c, idem.Wait(time.Hour))(s.count(func(w http.ResponseWriter, r *http.Request) {
		running <- r.Context()
		<-gone
		if r.Context().Err() == nil && r.Context().Value(key{}) == 1 {
			fmt.Fprint(w, "done")
		}
	}))
	left := make(chan bool, 2)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { left <- true })
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
	}))
	defer s.Close()
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.do(s.request(t, http.MethodPost, "/", "", "Idempotency-Key", "k").WithContext(ctx))
		ended <- err
	}()
	<-running
	leave()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-left // the server has seen it
	close(gone)
	r := s.send(t, http.MethodPost, "/", "", "Idempotency-Key", "k")
	require.True(t, r.replayed)
	require.Equal(t, "done", r.body)
}

// What Redis is asked, as the package comment says.
func TestRoundTrips(t *testing.T) {
	c, _, server := onRedis(t)
	s := serve(t, c, echo)
	s.post(t, "warm", "")
	s.post(t, "warm", "")
	before := server.Commands(t)
	s.post(t, "k", "")
	require.EqualValues(t, 4, server.Commands(t)-before)
	before = server.Commands(t)
	require.True(t, s.post(t, "k", "").replayed)
	require.EqualValues(t, 3, server.Commands(t)-before)
}

func TestPanics(t *testing.T) {
	c, _, _ := onRedis(t)
	require.Panics(t, func() { idem.Middleware(nil) })
	require.Panics(t, func() { idem.New(nil) })
	for i, o := range []idem.Option{
		idem.Name(""), idem.TTL(0), idem.Wait(-1), idem.AtMost(0), idem.Scope(nil), idem.Methods(), idem.Methods(""), idem.MaxRequest(-1),
		idem.MaxResponse(-1), idem.Oversize(9), idem.Outage(-1), idem.Statuses(nil), idem.Headers(nil),
	} {
		require.Panics(t, func() { idem.Middleware(c, o) }, fmt.Sprint(i))
	}
	require.Panics(t, func() { idem.New(c, idem.TTL(0)) })
}
