package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
)

// Workers on several machines take turns in the order in which they came.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()

	printer := fairlock.New(c, "printer")
	err := latchkey.Do(context.Background(), printer, func(ctx context.Context) error {
		return printPages(ctx)
	})
	if err != nil {
		log.Print(err)
	}
}

// Stand in the queue for ten seconds, then leave it.
func ExampleLock_TryLock() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()
	ctx := context.Background()

	printer := fairlock.New(c, "printer", fairlock.QueueTimeout(30*time.Second))
	hold, err := printer.TryLock(ctx, latchkey.Wait(10*time.Second))
	if errors.Is(err, latchkey.ErrNotAcquired) {
		waiters, err := printer.Waiters(ctx)
		if err == nil {
			fmt.Println(len(waiters), "are waiting")
		}
		return
	}
	if err != nil {
		log.Print(err)
		return
	}
	defer hold.Unlock(ctx)
	if err := printPages(hold.Context()); err != nil {
		log.Print(err)
	}
}

func printPages(ctx context.Context) error { return ctx.Err() }
