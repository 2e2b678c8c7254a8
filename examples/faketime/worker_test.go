package faketime

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/rlock"
)

func TestWatchEndsWithTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := latchkeytest.NewServer(t) // in memory, on the bubble's clock
		looks, ended := 0, make(chan error)
		go func() {
			ended <- Watch(t.Context(), rlock.New(server.Client(t), "watch"), func() { looks++ })
		}()

		time.Sleep(time.Hour) // renewed all the time
		synctest.Wait()
		if looks != 60 {
			t.Errorf("%d looks in an hour, want 60", looks)
		}

		server.Expire("watch") // as if Redis had lost it
		if err := <-ended; !errors.Is(err, latchkey.ErrLeaseLost) {
			t.Errorf("it ended with %v, want ErrLeaseLost", err)
		}
	})
}
