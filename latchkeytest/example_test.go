package latchkeytest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/rlock"
)

// What a worker does when its lock is lost. In synctest.Test the ten seconds
// until the next renewal take no time.
func ExampleServer_Expire() {
	var t *testing.T // the test's own

	server := latchkeytest.NewServer(t)
	lock := rlock.New(server.Client(t), "orders:42")
	hold, err := lock.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Expire("orders:42")
	start := time.Now()
	<-hold.Context().Done()
	fmt.Println("heard of it after", time.Since(start)) // 10s
}
