package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/text/texttest"
	"github.com/latchkey-go/latchkey/rlock"
)

// lists are the pages without a name, and a text that each has when fill is done.
var lists = map[string]string{
	"": "printer:3rd-floor", "contention": "printer:3rd-floor", "clients": java, "jobs": "out of paper", "leaders": "worker-1",
}

func lockPage(name string) string { return "lock?name=" + url.QueryEscape(name) }

func TestEveryPage(t *testing.T) {
	s := start(t, "prod")
	s.fill()
	b := open(t)
	for path, text := range lists {
		b.do(chromedp.Navigate(s.url + path))
		b.shows(text)
	}
	b.do(chromedp.Navigate(s.url))
	for _, name := range names {
		b.shows(">" + name + "<")
	}
	for _, name := range names {
		b.do(chromedp.Navigate(s.url + lockPage(name)))
		b.shows(name)
		assert.True(t, eval[bool](b, `!document.querySelector('.bad')`), name)
	}
	// A link leads there, too.
	b.do(chromedp.Navigate(s.url), chromedp.Click(chromedp.CSS("a[href='lock?name=java%3Abilling']")))
	b.shows(java + ":52")
}

// A change is on the page within a second. A machine that is busy may take longer, but not
// each time.
func TestChangesAreShown(t *testing.T) {
	s := start(t, "prod")
	b := open(t)
	b.do(chromedp.Navigate(s.url), chromedp.WaitReady(chromedp.CSS("body.follows")))
	took := time.Hour
	for i := range 10 {
		label := fmt.Sprintf("label-%d", i)
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.seen = 0; new MutationObserver((_, o) => {
			if (!document.body.textContent.includes(%q)) return;
			window.seen = Date.now();
			o.disconnect();
		}).observe(document.body, {subtree: true, childList: true, characterData: true}), undefined`, label)))
		before := time.Now()
		h := s.hold(rlock.New(s.client, "orders:42"), latchkey.Label(label))
		seen, err := within(b, chromedp.Poll[int64](`window.seen`, chromedp.WithPollingInterval(20*time.Millisecond)))
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
		took = min(took, time.UnixMilli(seen).Sub(before))
		if took < time.Second {
			break
		}
	}
	t.Logf("shown after %v", took)
	assert.Less(t, took, time.Second)
	assert.True(t, eval[bool](b, `document.body.classList.contains('follows')`))
}

// What somebody has opened and typed stays while the page changes around it.
func TestTypingIsKept(t *testing.T) {
	s := start(t, "prod")
	s.hold(rlock.New(s.client, "orders:42"))
	b := open(t)
	b.do(chromedp.Navigate(s.url+lockPage("orders:42")), chromedp.WaitReady(chromedp.CSS("body.follows")),
		chromedp.Click(chromedp.CSS("summary")), chromedp.SendKeys(chromedp.CSS("input[name=confirm]"), "orders"))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := rlock.New(s.client, "orders:42").LockAsync(ctx)
	b.shows(`data-t="Waiter"`)
	cancel()
	<-waiter
	b.shows("Nobody stands in a queue.")
	assert.Equal(t, "orders", eval[string](b, `document.querySelector('details[open] input[name=confirm]').value`))
	assert.Equal(t, "confirm", eval[string](b, `document.activeElement.name`))
}

// An action by hand: the lock is taken from the holder that was shown.
func TestForceUnlock(t *testing.T) {
	s := start(t, "prod")
	lock := rlock.New(s.client, "orders:42")
	s.hold(lock)
	b := open(t)
	b.do(chromedp.Navigate(s.url+lockPage("orders:42")), chromedp.Click(chromedp.CSS("summary")),
		chromedp.SendKeys(chromedp.CSS("input[name=confirm]"), "orders:42"), chromedp.Click(chromedp.CSS("button.danger")))
	b.shows("Nobody holds it.")
	held, err := lock.IsLocked(t.Context())
	require.NoError(t, err)
	assert.False(t, held)
}

// Without scripts there are all pages, they follow, and actions work: also one that is
// refused, because another one holds the lock by now.
func TestWithoutScripts(t *testing.T) {
	s := start(t, "prod")
	s.fill()
	b := open(t, "409")
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for path, text := range lists {
		b.do(chromedp.Navigate(s.url + path))
		b.shows(text)
	}
	b.do(chromedp.Navigate(s.url))
	s.hold(rlock.New(s.client, "later"), latchkey.Label("it came later"))
	b.shows("it came later") // the page is loaded again by itself

	lock := rlock.New(s.client, "contract")
	first, err := lock.Lock(t.Context(), latchkey.Label("the first"))
	require.NoError(t, err)
	b.do(chromedp.Navigate(s.url + lockPage("contract")))
	b.shows("the first")
	require.NoError(t, first.Unlock(t.Context()))
	next := s.hold(lock, latchkey.Label("the next"))
	b.confirm("contract")
	b.shows("nothing was done, because it has changed meanwhile")
	held, err := lock.IsHeldBy(t.Context(), next.Holder())
	require.NoError(t, err)
	assert.True(t, held)

	b.do(chromedp.Navigate(s.url + lockPage("contract")))
	b.shows("the next")
	b.confirm("contract")
	b.shows("Nobody holds it.")
}

// confirm opens the first form of the page, types a name and sends it, by the keyboard
// only.
func (b *tab) confirm(name string) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS("summary")), chromedp.KeyEvent(" "), chromedp.KeyEvent("\t"), chromedp.KeyEvent(name), chromedp.KeyEvent("\r"))
}

// Names, labels and the title are text, whatever is in them.
func TestHostileTexts(t *testing.T) {
	const script = `"><script>window.pwned=1</script><img src=x onerror="window.pwned=1"><a href="javascript:window.pwned=1">`
	s := start(t, script)
	for _, name := range append([]string{script, "javascript:window.pwned=1", "{{.}}", "</textarea></title></script>"}, texttest.Hostile...) {
		if name != "" {
			s.hold(fairlock.New(s.client, name), latchkey.Label(script))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiter := fairlock.New(s.client, script).LockAsync(ctx, latchkey.Label(script))
	defer func() { cancel(); <-waiter }()
	b := open(t)
	for _, path := range []string{"", "contention", "clients", lockPage(script), "?q=" + url.QueryEscape(script), lockPage("\xff\xfe"), lockPage("\x00nul")} {
		b.do(chromedp.Navigate(s.url+path), chromedp.WaitReady(chromedp.CSS("body.follows")))
		b.shows("pwned")
		s.hold(rlock.New(s.client, script+" "+path), latchkey.Label(script)) // so that a stream has something to say
		assert.True(t, eval[bool](b, `window.pwned === undefined && !document.querySelector('main script, img, a[href^="javascript:"]')`), path)
	}
	b.do(chromedp.Navigate(s.url))
	b.shows("javascript:window.pwned=1")
	assert.True(t, eval[bool](b, `window.pwned === undefined`))
}

// A page of another site cannot act here, though its browser can reach it.
func TestAnotherSite(t *testing.T) {
	s := start(t, "prod")
	lock := rlock.New(s.client, "orders:42")
	h := s.hold(lock)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel="icon" href="data:,"><form method="post" action="%saction"><input name="op" value="force-unlock"><input name="name" value="orders:42">
			<input name="holder" value="%s"><input name="confirm" value="orders:42"><button id="go">go</button></form>`, s.url, h.HolderID())
	}))
	defer evil.Close()
	b := open(t, "403", "404") // it asks for /favicon.ico
	b.do(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Click(chromedp.CSS("#go")))
	b.shows("this does not come from this page")
	held, err := lock.IsHeldBy(t.Context(), h.Holder())
	require.NoError(t, err)
	assert.True(t, held)
}

// Everybody can use the pages: axe-core finds nothing, and a narrow window needs no
// scrolling to the side.
func TestAxe(t *testing.T) {
	source := axe(t)
	s := start(t, "prod")
	s.fill()
	paths := []string{lockPage("nothing"), "?q=nothing"}
	for path := range lists {
		paths = append(paths, path)
	}
	for _, name := range []string{"orders:42", "printer:3rd-floor", "gate:migrated", "regions"} {
		paths = append(paths, lockPage(name))
	}
	b := open(t)
	for _, path := range paths {
		b.do(chromedp.Navigate(s.url + path))
		if text, ok := lists[path]; ok {
			b.shows(text)
		}
		b.do(chromedp.Evaluate[chromedp.Void](source + "; undefined"))
		for _, width := range []int64{320, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				b.look(width, scheme)
				found := eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => v.id + ': ' + v.help + ': ' + v.nodes.map(n => n.html).join(' | ')))`)
				assert.Empty(t, found, "%s, %d px, %s", path, width, scheme)
			}
			assert.LessOrEqual(t, eval[int64](b, `document.documentElement.scrollWidth`), width, path)
		}
	}
}
