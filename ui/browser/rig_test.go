package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/once"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
	"github.com/latchkey-go/latchkey/ui"
)

// patience is how long to wait for something that must happen at some time.
const patience = 20 * time.Second

// A site has the pages below /locks/, and the Redis that they show.
type site struct {
	t      *testing.T
	rdb    *redis.Client
	client *latchkey.Client
	url    string
}

// start starts a site where everything is allowed, for a test beside others.
func start(t *testing.T, title string) *site {
	t.Helper()
	t.Parallel()
	if program() == "" {
		need(t, "Chromium")
	}
	rdb := redistest.Start(t).Client(t)
	client := latchkey.New(rdb)
	t.Cleanup(func() { _ = client.Close() })
	h, err := ui.New(client, ui.Options{Title: title, Authorize: func(*http.Request, ui.Action) error { return nil }, Audit: func(*http.Request, ui.Action, error) {}})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", h))
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		assert.NoError(t, h.Close())
		web.CloseClientConnections()
		web.Close()
	})
	return &site{t, rdb, client, web.URL + "/locks/"}
}

func (s *site) hold(l latchkey.Locker, opts ...latchkey.LockOption) *latchkey.Hold {
	s.t.Helper()
	h, err := l.Lock(s.t.Context(), opts...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = h.Unlock(context.Background()) })
	return h
}

// java is the client id of a Redisson.
const java = "285475da-9152-4c83-822a-67ee2f116a79"

// java writes locks as Redisson does.
func (s *site) java(name string) {
	s.t.Helper()
	ctx := s.t.Context()
	require.NoError(s.t, s.rdb.HSet(ctx, name, java+":52", 1).Err())
	require.NoError(s.t, s.rdb.PExpire(ctx, name, 20*time.Second).Err())
	require.NoError(s.t, s.rdb.HSet(ctx, name+":rw", "mode", "write", java+":53:write", 1).Err())
	require.NoError(s.t, s.rdb.PExpire(ctx, name+":rw", 25*time.Second).Err())
}

// names are those of the objects that fill makes.
var names = []string{"orders:42", "ledger:close", "catalogue", "printer:3rd-floor", "pool:reports", "seats", "gate:migrated", "regions", "java:billing"}

// fill makes one of each primitive, with holders and waiters, a job and an election.
func (s *site) fill() {
	s.t.Helper()
	t, c := s.t, s.client
	s.hold(rlock.New(c, "orders:42"), latchkey.Label("export of march"))
	s.hold(rlock.New(c, "ledger:close", rlock.Fenced()), latchkey.Label("closing the year"))
	s.hold(rwlock.New(c, "catalogue").ReadLock(), latchkey.Label("search index"))
	s.hold(fairlock.New(c, "printer:3rd-floor"), latchkey.Label("invoices"))
	s.hold(multilock.NewGroup(c, "regions", "north", "south"))
	pool := permitsemaphore.New(c, "pool:reports")
	_, err := pool.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	p, err := pool.Acquire(t.Context(), latchkey.Label("report 7"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Release(context.Background()) })
	_, err = semaphore.New(c, "seats").TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	_, err = countdownlatch.New(c, "gate:migrated").TrySetCount(t.Context(), 2)
	require.NoError(t, err)
	s.java("java:billing")

	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	for _, label := range []string{"receipts", "labels"} {
		waits.Go(func() { _, _ = fairlock.New(c, "printer:3rd-floor").Lock(ctx, latchkey.Label(label)) })
	}
	waits.Go(func() { _, _ = rlock.New(c, "orders:42").Lock(ctx) })
	waits.Go(func() { _ = semaphore.New(c, "seats").Acquire(ctx, 6) })
	waits.Go(func() { _ = countdownlatch.New(c, "gate:migrated").Await(ctx) })
	waits.Go(func() {
		_ = elect.New(c, "reconciler", elect.Identity("worker-1")).Run(ctx, func(ctx context.Context, _ elect.Term) error {
			<-ctx.Done()
			return nil
		})
	})
	t.Cleanup(func() { cancel(); waits.Wait() })
	_, err = once.New(c, "nightly").Do(t.Context(), time.Now(), func(context.Context) error { return nil })
	require.NoError(t, err)
	_, err = once.New(c, "invoices").Do(t.Context(), time.Now(), func(context.Context) error { return fmt.Errorf("out of paper") })
	require.Error(t, err)
}

// A tab is a page in the browser, with cookies and a cache of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // exceptions, and what the browser has refused
}

// open opens one, and checks at the end of the test that nothing was refused or thrown but
// what is expected.
func open(t *testing.T, expected ...string) *tab {
	t.Helper()
	parent, err := browser()
	require.NoError(t, err)
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx)) // the tab lives as long as the context of this call
	require.NoError(t, chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, ev.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			if ev.Entry.Level == "error" {
				b.errors = append(b.errors, ev.Entry.Text)
			}
		}
	}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Empty(t, slices.DeleteFunc(b.errors, func(e string) bool {
			return slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(e, text) })
		}))
	})
	return b
}

// do runs steps, and fails the test if they do not end.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	_, err := within(b, chromedp.Steps(steps...))
	require.NoError(b.t, err)
}

func within[T any](b *tab, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// eval returns the value of an expression on the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := within(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return v
}

// call sends a command to the browser.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Call(ctx, c, params)
	require.NoError(b.t, err)
}

// look makes the window so wide, in a scheme.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 800))
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// shows waits until the page has a text. It works where scripts do not run, too.
func (b *tab) shows(text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		html, err := within(b, chromedp.OuterHTML(chromedp.CSS("html"))) // it fails while another page is loaded
		if err == nil && strings.Contains(html, text) {
			return
		}
		require.True(b.t, time.Now().Before(end), "no %q in %s (%v)", text, html, err)
	}
}
