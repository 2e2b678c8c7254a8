package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	if err := goleak.Find(redistest.LeakOptions()...); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// stop ends the browser, if there is one.
var stop = func() {}

// browser starts the browser of all tests.
var browser = sync.OnceValues(func() (context.Context, error) {
	alloc, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", true))...)
	ctx, cancel := chromedp.NewContext(alloc)
	stop = func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		end()
	}
	return ctx, chromedp.Do(ctx)
})

// program returns the path of a browser; "" if there is none.
func program() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// axe returns the text of axe-core; "" if scripts/browser has not been here.
func axe(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../.cache/axe/axe-*.min.js")
	require.NoError(t, err)
	if len(files) == 0 {
		need(t, "axe-core (sh scripts/browser)")
	}
	text, err := os.ReadFile(files[len(files)-1])
	require.NoError(t, err)
	return string(text)
}

// need ends a test that lacks something: skipped on a developer's machine, failed where
// nobody would see that.
func need(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("it needs " + what)
	}
	t.Skip("it needs " + what)
}
