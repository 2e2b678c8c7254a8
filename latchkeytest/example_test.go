package latchkeytest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/latchkeytest"
	"github.com/latchkey-go/latchkey/rlock"
)

// The test checks what a program does while another client holds the lock.
func ExampleNew() {
	var t *testing.T // the test's own

	lock := rlock.New(latchkeytest.New(t), "orders:42")
	if _, err := lock.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.TryLock(t.Context()); !errors.Is(err, latchkey.ErrNotAcquired) {
		t.Error(err)
	}
}

// Two clients share one server.
func ExampleNewServer() {
	var t *testing.T // the test's own

	server := latchkeytest.NewServer(t)
	ours, theirs := rlock.New(server.Client(t), "orders:42"), rlock.New(server.Client(t), "orders:42")
	if _, err := ours.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.TryLock(t.Context()); !errors.Is(err, latchkey.ErrNotAcquired) {
		t.Error(err)
	}
}

// The test checks what a worker does when its lock is lost. In synctest.Test
// the ten seconds until the next renewal take no time.
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
