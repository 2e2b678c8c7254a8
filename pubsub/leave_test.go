package pubsub_test

import (
	"slices"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

// An unused name is unsubscribed even if its connection is needed for others.
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

// If a name can be subscribed to in only one way, its next subscriber receives
// what comes in that way, however soon the previous one has left.
func TestHalfDeniedNameIsTakenUpAgain(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "plain", "on", ">pw", "~*", "&*", "+@all")
	if redistest.Sharded() {
		srv.Do(t, "ACL", "SETUSER", "plain", "-ssubscribe")
	}
	n := newNotifier(t, srv.Client(t, as("plain")), pubsub.Config{Mode: pubsub.Both})
	rdb := srv.Client(t)
	for range 50 {
		s := n.Subscribe("half")
		await(t, s, pubsub.Denied)
		redistest.Until(t, "the name to be subscribed to", func() bool { return slices.Equal(channels(t, srv), []string{"half"}) })
		drain(s)
		publish(t, rdb, "half")
		hint(t, s)
		s.Close()
	}
}
