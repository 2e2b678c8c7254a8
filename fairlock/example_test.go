package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
)

// connect returns a connection to an in-memory server, so that the examples run
// everywhere. In a program it is redis.NewClient, NewFailoverClient or
// NewClusterClient.
func connect() (rdb *redis.Client, stop func()) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // leases end as they do in Redis
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

// Workers on several machines take turns in the order in which they came.
func Example() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	printer := fairlock.New(client, "printer")
	err := latchkey.Do(context.Background(), printer, func(ctx context.Context) error {
		fmt.Println("printing")
		return ctx.Err() // done the moment the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
	// Output: printing
}

// A caller waits in the queue for a while and then leaves it.
func ExampleLock_TryLock() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	printer := fairlock.New(client, "printer")

	err := latchkey.Do(ctx, printer, func(context.Context) error {
		_, err := printer.TryLock(ctx, latchkey.Wait(20*time.Millisecond))
		if errors.Is(err, latchkey.ErrNotAcquired) {
			waiters, err := printer.Waiters(ctx)
			fmt.Println("not our turn;", len(waiters), "are waiting")
			return err
		}
		return err
	})
	if err != nil {
		log.Print(err)
	}
	// Output: not our turn; 0 are waiting
}

func ExampleNonReentrant() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	printer := fairlock.New(client, "printer", fairlock.NonReentrant())

	err := latchkey.Do(context.Background(), printer, func(ctx context.Context) error {
		_, err := printer.Lock(ctx) // while another caller holds it
		return err
	})
	fmt.Println(errors.Is(err, latchkey.ErrReentry))
	// Output: true
}

// All clients should have the same timeout, which is Redisson's
// fairLockWaitTimeout.
func ExampleQueueTimeout() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	printer := fairlock.New(client, "printer", fairlock.QueueTimeout(time.Minute))

	hold, err := printer.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", hold.Name())
	if err := hold.Unlock(context.Background()); err != nil {
		log.Print(err)
	}
	// Output: holding printer
}
