package pubsub_test

import (
	"slices"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

// A name that nobody uses any more is left although the connection is needed for
// others.
func TestUnusedNameIsLeft(t *testing.T) {
	srv := redistest.Start(t)
	n := newNotifier(t, srv.Client(t), pubsub.Config{Linger: 20 * time.Millisecond})
	kept := live(t, n, "kept")
	for _, name := range names("once", 5) {
		live(t, n, name).Close()
	}
	redistest.Until(t, "the others to be left", func() bool {
		return slices.Equal(channels(t, srv), []string{"kept"})
	})
	kept.Close()
}
