package ui_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/text/texttest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/once"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
	"github.com/latchkey-go/latchkey/ui"
)

// A site is a Handler behind a server, and the Redis that it shows.
type site struct {
	t      *testing.T
	rdb    redis.UniversalClient // an administrator's
	client *latchkey.Client
	h      *ui.Handler
	url    string
}

func start(t *testing.T, opts ui.Options, more ...latchkey.Option) *site {
	t.Helper()
	server := redistest.Start(t)
	server.Allow(t, "scan", "hrandfield", "pubsub|channels", "pubsub|shardchannels", "xadd", "xrevrange")
	return show(t, server.Client(t), opts, more...)
}

// show starts a Handler for a Redis.
func show(t *testing.T, rdb redis.UniversalClient, opts ui.Options, more ...latchkey.Option) *site {
	t.Helper()
	client := latchkey.New(redistest.User(t, rdb), more...)
	t.Cleanup(func() { _ = client.Close() })
	opts.Interval = 100 * time.Millisecond
	h, err := ui.New(client, opts)
	require.NoError(t, err)
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		assert.NoError(t, h.Close())
		web.Close()
	})
	return &site{t, rdb, client, h, web.URL}
}

// all allows every action.
func all(*http.Request, ui.Action) error { return nil }

func (s *site) do(req *http.Request) (*http.Response, string) {
	s.t.Helper()
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := web.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res, string(body)
}

// get returns a page, which must be there.
func (s *site) get(path string, header ...string) string {
	s.t.Helper()
	req := httptest.NewRequest("GET", s.url+path, nil)
	req.RequestURI = ""
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, body := s.do(req)
	require.Equal(s.t, http.StatusOK, res.StatusCode, body)
	assert.Contains(s.t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		assert.False(s.t, ids[id[1]], "%s has the id %s twice", path, id[1])
		ids[id[1]] = true
	}
	return body
}

// shows waits until a page has a text.
func (s *site) shows(path, text string) string {
	s.t.Helper()
	var body string
	redistest.Until(s.t, fmt.Sprintf("%q on %s", text, path), func() bool {
		body = s.get(path)
		return strings.Contains(body, text)
	})
	return body
}

func (s *site) post(form url.Values, header ...string) (int, string) {
	s.t.Helper()
	req := httptest.NewRequest("POST", s.url+"/action", strings.NewReader(form.Encode()))
	req.RequestURI = ""
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, body := s.do(req)
	return res.StatusCode, body
}

func hold(t *testing.T, l latchkey.Locker, opts ...latchkey.LockOption) *latchkey.Hold {
	t.Helper()
	h, err := l.Lock(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Unlock(context.Background()) })
	return h
}

// java writes the lock of a Java client as Redisson does.
func (s *site) java(name string) {
	s.t.Helper()
	require.NoError(s.t, s.rdb.HSet(s.t.Context(), name, "285475da-9152-4c83-822a-67ee2f116a79:52", 1).Err())
	require.NoError(s.t, s.rdb.PExpire(s.t.Context(), name, 30*time.Second).Err())
}

// primitives makes one of each.
func (s *site) primitives() {
	s.t.Helper()
	t, c := s.t, s.client
	hold(t, rlock.New(c, "orders:42"), latchkey.Label("export of march"))
	hold(t, rlock.New(c, "ledger", rlock.Fenced()))
	hold(t, rwlock.New(c, "catalogue").ReadLock())
	hold(t, fairlock.New(c, "printer"))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := fairlock.New(c, "printer").LockAsync(ctx, latchkey.Label("next in line"))
	t.Cleanup(func() { cancel(); <-waiting })
	pool := permitsemaphore.New(c, "pool")
	_, err := pool.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	p, err := pool.Acquire(t.Context(), latchkey.Label("worker"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Release(context.Background()) })
	hold(t, multilock.NewGroup(c, "group", "north", "south"))
	_, err = semaphore.New(c, "seats").TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	_, err = countdownlatch.New(c, "gate").TrySetCount(t.Context(), 2)
	require.NoError(t, err)
	// Redis shows what an integer is while somebody waits for it.
	seats := semaphore.New(c, "seats").AcquireAsync(ctx, 6)
	gate := countdownlatch.New(c, "gate").AwaitAsync(ctx)
	t.Cleanup(func() { cancel(); _, _ = <-seats, <-gate })
	s.java("java:lock")
}

func TestPageOfEveryPrimitive(t *testing.T) {
	s := start(t, ui.Options{Title: "prod <1>"})
	s.primitives()
	for name, says := range map[string][]string{
		"orders:42": {"lock", "export of march", s.client.ID()}, "ledger": {"lock", "<dt>Token</dt>"}, "catalogue": {"readwrite", "read"},
		"printer": {"fair", "next in line"}, "pool": {"permitsemaphore", "<dd>2 available</dd>", "worker"},
		"seats": {"semaphore", "<dd>5 available</dd>", "1</b> for"}, "gate": {"latch", "<dd>2 left</dd>", "1</b> for"},
		"group": {"multilock", ">value "}, "java:lock": {"lock", "285475da"},
	} {
		s.shows("/", ">"+name+"<")
		path := "/lock?name=" + url.QueryEscape(name)
		s.shows(path, `<span class="kind">`+says[0]+"</span>")
		for _, text := range says[1:] {
			s.shows(path, text)
		}
	}
	body := s.get("/")
	assert.Contains(t, body, "prod &lt;1&gt;")
	assert.Contains(t, body, "export of march")
	assert.Contains(t, body, "285475da…:52")
	printer := s.shows("/lock?name=printer", "next in line")
	assert.NotContains(t, printer, "<form method=\"post\"", "it is read-only by default")
	assert.Regexp(t, `<dt>Token</dt><dd>[1-9]\d*</dd>`, s.get("/lock?name=ledger"))
	assert.Equal(t, 2, strings.Count(s.get("/lock?name=group"), ">value "), "each value of a multi-lock is held by itself")
	assert.Contains(t, s.get("/lock?name=nothing"), "Nobody holds it.")

	// The list that the address asks for.
	assert.NotContains(t, s.get("/?kind=fair"), "orders:42")
	assert.Contains(t, s.get("/?kind=fair"), ">printer<")
	assert.NotContains(t, s.get("/?state=waited"), "orders:42")
	assert.Contains(t, s.get("/?q=MARCH"), ">orders:42<")
	assert.NotContains(t, s.get("/?q=march"), ">ledger<")
	assert.Contains(t, s.get("/?page=99&sort=name"), ">orders:42<")

	assert.Contains(t, s.get("/", "Accept-Language", "fr, zh;q=0.9, en;q=0.5"), `<html lang="zh-CN">`)
	assert.Contains(t, s.get("/", "Accept-Language", "fr"), `<html lang="en">`)
	assert.Contains(t, s.get("/healthz"), "ok")
}

func TestContentionAndClients(t *testing.T) {
	s := start(t, ui.Options{})
	for _, path := range []string{"/contention", "/clients", "/jobs", "/leaders"} {
		s.get(path)
	}
	s.shows("/contention", "Nobody waits.")
	s.primitives()
	s.shows("/contention", ">printer<")
	assert.NotContains(t, s.get("/contention"), ">ledger<")
	clients := s.shows("/clients", s.client.ID())
	assert.Contains(t, clients, "285475da-9152-4c83-822a-67ee2f116a79")
	assert.NotContains(t, clients, ":write")
}

func TestJobsAndLeaders(t *testing.T) {
	s := start(t, ui.Options{})
	s.shows("/jobs", "No run is known.")
	s.shows("/leaders", "No election is known.")
	_, err := once.New(s.client, "nightly").Do(t.Context(), time.Now(), func(context.Context) error { return errors.New("<out of paper>") })
	require.Error(t, err)
	lead(t, elect.New(s.client, "reconciler", elect.Identity("candidate 1")))
	s.shows("/jobs", "&lt;out of paper&gt;")
	s.shows("/leaders", "candidate 1")
}

// lead leads an election until the end of the test.
func lead(t *testing.T, e *elect.Election) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx, func(ctx context.Context, _ elect.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// Names and labels are anybody's.
func TestHostileNames(t *testing.T) {
	s := start(t, ui.Options{Authorize: all})
	const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	names := append([]string{script, "javascript:alert(1)"}, texttest.Hostile...)
	for _, name := range names {
		if name != "" {
			hold(t, rlock.New(s.client, name), latchkey.Label(script))
		}
	}
	s.shows("/", "javascript:alert")
	for _, path := range []string{"/", "/?q=" + url.QueryEscape(script), "/lock?name=" + url.QueryEscape(script), "/lock?name=%ff%fe", "/lock?name=%00nul"} {
		body := s.get(path)
		assert.NotContains(t, body, "<script>", path)
		assert.NotContains(t, body, "<img", path)
		for _, href := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			assert.Regexp(t, `^(\./|lock|static/|#|contention$|clients$|jobs$|leaders$)`, href[1], path)
		}
	}
	assert.Contains(t, s.get("/lock?name=%ff%fe"), "Force unlock")
}

func TestActions(t *testing.T) {
	var told []string
	s := start(t, ui.Options{Authorize: all, Audit: func(_ *http.Request, a ui.Action, err error) {
		told = append(told, fmt.Sprint(a.Op, " ", a.Name, " ", err == nil))
	}})
	lock := rlock.New(s.client, "orders:42")
	h := hold(t, lock)
	form := url.Values{"op": {"force-unlock"}, "name": {"orders:42"}, "holder": {h.HolderID()}, "confirm": {"orders:42"}}

	code, _ := s.post(form, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	assert.Equal(t, http.StatusForbidden, code)
	code, _ = s.post(form, "Origin", "https://evil.example")
	assert.Equal(t, http.StatusForbidden, code)
	wrong := url.Values{"op": {"force-unlock"}, "name": {"orders:42"}, "holder": {h.HolderID()}, "confirm": {"orders:4"}}
	code, _ = s.post(wrong)
	assert.Equal(t, http.StatusBadRequest, code)
	req := httptest.NewRequest("GET", s.url+"/action?"+form.Encode(), nil)
	req.RequestURI = ""
	res, _ := s.do(req)
	assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	held, err := lock.IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, held, "nothing of that has done anything")
	require.Empty(t, told)

	code, _ = s.post(form)
	assert.Equal(t, http.StatusSeeOther, code)
	rec := httptest.NewRecorder() // below a path
	post := httptest.NewRequest("POST", "/locks/action", strings.NewReader(url.Values{"op": {"set-permits"}, "name": {"pool"}, "n": {"3"}, "confirm": {"pool"}}.Encode()))
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	http.StripPrefix("/locks", s.h).ServeHTTP(rec, post)
	assert.Equal(t, "lock?name=pool", rec.Header().Get("Location"))
	held, err = lock.IsLocked(t.Context())
	require.NoError(t, err)
	assert.False(t, held)

	// Its successor keeps it, and the page says so.
	next := hold(t, lock)
	code, body := s.post(form)
	assert.Equal(t, http.StatusConflict, code)
	assert.Contains(t, body, "does not hold it any more")
	assert.True(t, next.Remaining() > 0)
	held, err = lock.IsHeldBy(t.Context(), next.Holder())
	require.NoError(t, err)
	assert.True(t, held)

	code, _ = s.post(url.Values{"op": {"set-permits"}, "name": {"pool"}, "n": {"7"}, "confirm": {"pool"}})
	assert.Equal(t, http.StatusSeeOther, code)
	n, err := permitsemaphore.New(s.client, "pool").AvailablePermits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	latch := countdownlatch.New(s.client, "gate")
	set := url.Values{"op": {"set-count"}, "name": {"gate"}, "n": {"2"}, "confirm": {"gate"}}
	code, _ = s.post(set)
	assert.Equal(t, http.StatusSeeOther, code)
	code, _ = s.post(set)
	assert.Equal(t, http.StatusConflict, code, "a count is running")
	code, _ = s.post(url.Values{"op": {"delete-latch"}, "name": {"gate"}, "confirm": {"gate"}})
	assert.Equal(t, http.StatusSeeOther, code)
	count, err := latch.Count(t.Context())
	require.NoError(t, err)
	assert.Zero(t, count)
	assert.Equal(t, []string{"force-unlock orders:42 true", "set-permits pool true", "force-unlock orders:42 false", "set-permits pool true", "set-count gate true", "set-count gate false", "delete-latch gate true"}, told)
	for _, bad := range []url.Values{{"op": {"drop"}}, {"op": {"look"}}, {"op": {"set-permits"}, "name": {"pool"}, "n": {"-1"}, "confirm": {"pool"}}, {"op": {"force-unlock"}}} {
		code, _ = s.post(bad)
		assert.Equal(t, http.StatusBadRequest, code, "%v", bad)
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	form := url.Values{"op": {"delete-latch"}, "name": {"gate"}, "confirm": {"gate"}}
	for name, opts := range map[string]ui.Options{
		"default": {}, "read-only": {ReadOnly: true, Authorize: all},
		"asked": {Authorize: func(_ *http.Request, a ui.Action) error {
			if a.Op != ui.OpLook {
				return errors.New("only looking")
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			opts.Logger = slog.New(slog.DiscardHandler)
			s := start(t, opts)
			_, err := countdownlatch.New(s.client, "gate").TrySetCount(t.Context(), 1)
			require.NoError(t, err)
			s.get("/lock?name=gate")
			code, _ := s.post(form)
			assert.Equal(t, http.StatusForbidden, code)
			n, err := countdownlatch.New(s.client, "gate").Count(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 1, n)
		})
	}
	s := start(t, ui.Options{Authorize: func(*http.Request, ui.Action) error { return errors.New("nobody") }})
	req := httptest.NewRequest("GET", s.url+"/", nil)
	req.RequestURI = ""
	res, _ := s.do(req)
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
}

// A stream is the events of a page.
type stream struct {
	t      *testing.T
	lines  chan string
	cancel context.CancelFunc
}

func (s *site) follow(path string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	require.NoError(s.t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	f := &stream{s.t, make(chan string, 100_000), cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(f.lines)
		defer res.Body.Close()
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			f.lines <- in.Text()
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	return f
}

// says waits for a text among the events.
func (f *stream) says(text string) {
	f.t.Helper()
	end := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-f.lines:
			require.True(f.t, ok, "the stream has ended before %q", text)
			if strings.Contains(line, text) {
				return
			}
		case <-end:
			require.FailNow(f.t, "the stream does not say it", text)
		}
	}
}

func TestStream(t *testing.T) {
	s := start(t, ui.Options{})
	list, one := s.follow("/"), s.follow("/lock?name=orders:42")
	one.says("Nobody holds it.")
	h := hold(t, rlock.New(s.client, "orders:42"), latchkey.Label("export"))
	list.says("export")
	one.says("export")
	require.NoError(t, h.Unlock(t.Context()))
	one.says("Nobody holds it.")
}

// Close ends the streams, and a page is then refused.
func TestClose(t *testing.T) {
	s := start(t, ui.Options{})
	f := s.follow("/")
	f.says("Nothing is held.")
	require.NoError(t, s.h.Close())
	redistest.Until(t, "the end of the stream", func() bool { return !more(f) })
	req := httptest.NewRequest("GET", s.url+"/", nil)
	req.RequestURI = ""
	res, _ := s.do(req)
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
}

// more reports whether the stream goes on.
func more(f *stream) bool {
	select {
	case _, ok := <-f.lines:
		return ok
	default:
		return true
	}
}

func TestTooManyStreams(t *testing.T) {
	s := start(t, ui.Options{MostStreams: 1})
	f := s.follow("/")
	f.says("objects")
	req := httptest.NewRequest("GET", s.url+"/", nil)
	req.RequestURI = ""
	req.Header.Set("Accept", "text/event-stream")
	res, _ := s.do(req)
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	s.get("/") // the page is there all the same
}

// What each browser loads is small.
func TestSizes(t *testing.T) {
	s := start(t, ui.Options{})
	assert.Less(t, len(s.get("/static/live.js")), 6<<10)
	assert.Less(t, len(s.get("/static/style.css")), 12<<10)
}

// A client with a prefix sees what has the prefix, without it.
func TestKeyPrefix(t *testing.T) {
	s := start(t, ui.Options{}, latchkey.WithKeyPrefix("app:"))
	hold(t, rlock.New(s.client, "mine"))
	s.java("other")
	body := s.shows("/", ">mine<")
	assert.NotContains(t, body, "other")
	assert.Contains(t, s.get("/lock?name=mine"), s.client.ID())

	// Jobs and elections have the prefix within their braces.
	bare := latchkey.New(redistest.User(t, s.rdb))
	defer bare.Close()
	for _, c := range []*latchkey.Client{s.client, bare} {
		name := map[*latchkey.Client]string{s.client: "ours", bare: "theirs"}[c]
		_, err := once.New(c, name).Do(t.Context(), time.Now(), func(context.Context) error { return nil })
		require.NoError(t, err)
		lead(t, elect.New(c, name, elect.Identity("leader of "+name)))
	}
	jobs := s.shows("/jobs", "<b>ours</b>")
	assert.NotContains(t, jobs, "theirs")
	leaders := s.shows("/leaders", "leader of ours")
	assert.Contains(t, leaders, "<b>ours</b>")
	assert.NotContains(t, leaders, "theirs")
}

// One pass serves all browsers, and the page of many locks is small.
func TestManyLocksAndBrowsers(t *testing.T) {
	s := start(t, ui.Options{})
	n := redistest.Many(10_000, 300)
	s.many(n)
	s.get("/") // at once, whatever there is to read
	body := s.counts(n)
	assert.Less(t, len(body), 200<<10) // a page has fifty of them
	t.Logf("a page of %d KB", len(body)>>10)

	var all []*stream
	for range 20 {
		all = append(all, s.follow("/"))
	}
	for _, f := range all {
		f.says("objects")
	}
	s.java("one more")
	scans, passes := s.scans(), s.h.Passes()
	s.h.Hurry()
	s.counts(n + 1)
	assert.Equal(t, passes+1, s.h.Passes())
	assert.LessOrEqual(t, s.scans()-scans, n/1000+2) // a thousand names, or some more
}

// counts waits until the list counts so many objects.
func (s *site) counts(n int) (body string) {
	s.t.Helper()
	text := fmt.Sprintf("<b>%d</b> objects", n)
	for end := time.Now().Add(time.Minute); !strings.Contains(body, text); body = s.get("/") {
		require.True(s.t, time.Now().Before(end), "no %s", text)
		time.Sleep(20 * time.Millisecond) // it is the passes that take long
	}
	return body
}

// many writes so many locks of a Java client.
func (s *site) many(n int) {
	s.t.Helper()
	_, err := s.rdb.Pipelined(s.t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			key := fmt.Sprintf("lock:%05d", i)
			p.HSet(s.t.Context(), key, "285475da-9152-4c83-822a-67ee2f116a79:52", 1)
			p.PExpire(s.t.Context(), key, time.Hour)
		}
		return nil
	})
	require.NoError(s.t, err)
}

// scans returns how many SCANs Redis has run.
func (s *site) scans() int {
	s.t.Helper()
	info, err := s.rdb.Info(s.t.Context(), "commandstats").Result()
	require.NoError(s.t, err)
	var n int
	if at := strings.Index(info, "cmdstat_scan:calls="); at >= 0 {
		_, _ = fmt.Sscanf(info[at:], "cmdstat_scan:calls=%d", &n)
	}
	return n
}

// A crowd that follows the pages costs nothing more the longer it stays.
func TestCrowd(t *testing.T) {
	s := start(t, ui.Options{})
	lock := rlock.New(s.client, "orders:42")
	crowd := redistest.Many(100, 20)
	var events atomic.Int64
	for i := range crowd {
		s.count([]string{"/", "/lock?name=orders:42", "/clients", "/contention"}[i%4], &events)
	}
	// turn changes the pages until everybody has been told so often, and says what is in use then.
	turn := func(times int) (goroutines int, heap uint64) {
		until := events.Load() + int64(times*crowd)
		redistest.Until(t, "the events", func() bool {
			h, err := lock.Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(50 * time.Millisecond) // the page may show it, or not
			require.NoError(t, h.Unlock(t.Context()))
			return events.Load() >= until
		})
		runtime.GC()
		runtime.GC() // what the first one has made garbage of: pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	goroutines, heap := turn(3)
	laterGoroutines, laterHeap := turn(redistest.Many(30, 3))
	t.Logf("%d goroutines and %d KB with %d streams; after more events, %d and %d KB", goroutines, heap>>10, crowd, laterGoroutines, laterHeap>>10)
	assert.InDelta(t, goroutines, laterGoroutines, 30, "goroutines") // some come and go with a pass, or with the lock
	assert.Less(t, laterHeap, heap+4<<20, "heap")
}

// count follows a page until the end of the test, and counts its events.
func (s *site) count(path string, events *atomic.Int64) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	require.NoError(s.t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer res.Body.Close()
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if len(in.Bytes()) == 0 { // the end of an event
				events.Add(1)
			}
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
}

// The pages show what is on all nodes of a cluster.
func TestCluster(t *testing.T) {
	redistest.Long(t, "a cluster")
	cl := redistest.StartCluster(t, 3)
	for _, node := range cl.Nodes {
		node.Allow(t, "scan", "hrandfield", "pubsub|channels", "pubsub|shardchannels", "xrevrange")
	}
	s := show(t, cl.Client(t), ui.Options{Authorize: all})
	s.primitives()
	var first *latchkey.Hold
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} { // on all nodes
		h := hold(t, rlock.New(s.client, name))
		if first == nil {
			first = h
		}
		_, err := once.New(s.client, "job "+name).Do(t.Context(), time.Now(), func(context.Context) error { return nil })
		require.NoError(t, err)
		lead(t, elect.New(s.client, "election "+name, elect.Identity("candidate "+name)))
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "orders:42", "ledger", "catalogue", "printer", "pool", "seats", "gate", "group", "java:lock"} {
		s.shows("/", ">"+name+"<")
		s.get("/lock?name=" + url.QueryEscape(name))
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s.shows("/jobs", "<b>job "+name+"</b>")
		s.shows("/leaders", "candidate "+name)
	}
	s.shows("/clients", s.client.ID())
	s.shows("/contention", ">printer<")
	req := httptest.NewRequest("GET", s.url+"/lock?name=a{b", nil)
	req.RequestURI = ""
	res, body := s.do(req)
	assert.Equal(t, http.StatusBadGateway, res.StatusCode)
	assert.Contains(t, body, "cannot be used in a Redis Cluster")

	code, _ := s.post(url.Values{"op": {"force-unlock"}, "name": {"a"}, "holder": {first.HolderID()}, "confirm": {"a"}})
	assert.Equal(t, http.StatusSeeOther, code)
	held, err := rlock.New(s.client, "a").IsLocked(t.Context())
	require.NoError(t, err)
	assert.False(t, held)
}

// Without Redis the page says so, and keeps what it has.
func TestRedisGoes(t *testing.T) {
	server := redistest.Start(t)
	server.Allow(t, "scan", "hrandfield", "pubsub|channels", "pubsub|shardchannels", "xadd", "xrevrange")
	rdb := server.Client(t)
	client := latchkey.New(redistest.User(t, rdb))
	defer client.Close()
	h, err := ui.New(client, ui.Options{Interval: 100 * time.Millisecond})
	require.NoError(t, err)
	defer h.Close()
	get := func(path string) (int, string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		return rec.Code, rec.Body.String()
	}
	require.NoError(t, rdb.HSet(t.Context(), "java:lock", "285475da-9152-4c83-822a-67ee2f116a79:52", 1).Err())
	redistest.Until(t, "the lock", func() bool { _, body := get("/"); return strings.Contains(body, "java:lock") })
	server.Kill()
	redistest.Until(t, "the trouble", func() bool {
		_, body := get("/")
		return strings.Contains(body, "Redis does not answer as it should") && strings.Contains(body, "java:lock")
	})
	code, _ := get("/healthz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
}

func TestOptionsAreChecked(t *testing.T) {
	rdb, ring := redis.NewClient(&redis.Options{}), redis.NewRing(&redis.RingOptions{})
	defer rdb.Close()
	defer ring.Close()
	_, err := ui.New(latchkey.New(rdb), ui.Options{Interval: time.Millisecond})
	assert.ErrorContains(t, err, "Interval")
	_, err = ui.New(latchkey.New(rdb), ui.Options{MostStreams: -1})
	assert.ErrorContains(t, err, "MostStreams")
	_, err = ui.New(latchkey.New(ring), ui.Options{})
	assert.ErrorContains(t, err, "Ring")
}

// A page that could not be rendered is not an empty one for whoever asks next.
func TestRenderPanics(t *testing.T) {
	s := start(t, ui.Options{})
	require.Panics(t, func() { _, _ = s.h.Render(func() (any, error) { panic("a fault") }) })
	again := errors.New("rendered anew")
	redistest.Until(t, "another try", func() bool {
		_, err := s.h.Render(func() (any, error) { return nil, again })
		require.Error(t, err)
		return errors.Is(err, again)
	})
}
