package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

// A store is a resource that refuses a fencing token smaller than the greatest
// it has seen. In a database this is one statement:
//
//	UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
type store struct {
	// mu makes the check and the write one step.
	mu      sync.Mutex
	fence   int64
	balance int
}

var errStale = errors.New("stale token: somebody else has been here")

func (s *store) write(token int64, balance int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.fence {
		return errStale
	}
	s.fence, s.balance = token, balance
	return nil
}

// A holder that is paused beyond its lease does not know that it has lost the
// lock. It still writes, and only the resource can refuse the write.
func ExampleFenced_store() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	account := new(store)
	lock := rlock.New(client, "account:42", rlock.Fenced())

	// The first holder has 50 ms, and does not come to its write in time.
	first, err := lock.Lock(ctx, latchkey.Lease(50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-first.Lost() // as if the process had been paused for that long

	second, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a later holder has a greater token:", second.Token() > first.Token())
	fmt.Println("second writes 200:", account.write(second.Token(), 200))
	fmt.Println("first writes 100:", account.write(first.Token(), 100))
	fmt.Println("balance:", account.balance)
	if err := second.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// a later holder has a greater token: true
	// second writes 200: <nil>
	// first writes 100: stale token: somebody else has been here
	// balance: 200
}
