package browser

import (
	"flag"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pictures of the documents")

// The pictures of the documents are there, and are small. With -update they are made.
func TestPictures(t *testing.T) {
	s := start(t, "prod")
	s.fill()
	b := open(t)
	b.do(chromedp.Navigate(s.url), chromedp.WaitReady(chromedp.CSS("body.follows")))
	for _, name := range names {
		b.shows(">" + name + "<")
	}
	for _, scheme := range []string{"light", "dark"} {
		b.look(1280, scheme)
		png, err := within(b, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		file := "../../docs/ui-" + scheme + ".png"
		if *update {
			require.NoError(t, os.WriteFile(file, png, 0o644))
		}
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Less(t, max(info.Size(), int64(len(png))), int64(150<<10), scheme)
	}
}
