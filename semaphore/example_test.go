package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/semaphore"
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

// At most ten exports run at a time, in all processes together.
func Example() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	ctx := context.Background()
	exports := semaphore.New(client, "exports")
	if _, err := exports.TrySetPermits(ctx, 10); err != nil { // once, by whoever comes first
		log.Fatal(err)
	}

	switch err := exports.TryAcquire(ctx, 1, latchkey.Wait(30*time.Second)); {
	case errors.Is(err, latchkey.ErrNotAcquired):
		log.Print("too many exports are running")
		return
	case err != nil:
		log.Fatal(err)
	}
	defer func() {
		if err := exports.Release(ctx, 1); err != nil {
			log.Print(err)
		}
	}()
	n, err := exports.AvailablePermits(ctx)
	if err != nil {
		log.Print(err)
	}
	fmt.Println("exporting;", n, "more may")
	// Output: exporting; 9 more may
}

// The permits are valid for one day.
func ExampleTTL() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	calls := semaphore.New(client, "calls:2026-11-26")
	set, err := calls.TrySetPermits(context.Background(), 1000, semaphore.TTL(24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("set:", set, "for", rdb.TTL(context.Background(), "calls:2026-11-26").Val().Round(time.Hour))
	// Output: set: true for 24h0m0s
}

// Do takes two of the three permits and gives them back however the work ends.
func ExampleSemaphore_Do() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	ctx := context.Background()
	exports := semaphore.New(client, "exports")
	if _, err := exports.TrySetPermits(ctx, 3); err != nil { // once, by whoever comes first
		log.Fatal(err)
	}
	err := exports.Do(ctx, 2, func(ctx context.Context) error {
		n, err := exports.AvailablePermits(ctx)
		fmt.Println("exporting;", n, "more may")
		return err
	}, latchkey.Wait(30*time.Second))
	if errors.Is(err, latchkey.ErrNotAcquired) {
		log.Print("too many exports are running")
	} else if err != nil {
		log.Print(err)
	}
	// Output: exporting; 1 more may
}
