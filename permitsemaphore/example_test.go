package permitsemaphore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/permitsemaphore"
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

// At most three programs use the licence at a time. The permit of a program
// that crashes is back within half a minute.
func Example() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	ctx := context.Background()
	licences := permitsemaphore.New(client, "licences")
	if _, err := licences.TrySetPermits(ctx, 3); err != nil { // once, by whoever comes first
		log.Fatal(err)
	}
	permit, err := licences.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := permit.Release(ctx); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println("simulating:", permit.Context().Err() == nil) // done the moment the permit is lost
	// Output: simulating: true
}

// A permanent permit is released by its id, perhaps by another program.
func ExamplePermanent() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	ctx := context.Background()
	seats := permitsemaphore.New(client, "seats")
	if err := seats.SetPermits(ctx, 3); err != nil {
		log.Fatal(err)
	}
	permit, err := seats.Acquire(ctx, permitsemaphore.Permanent())
	if err != nil {
		log.Fatal(err)
	}
	id := permit.ID() // keep it
	if err := seats.Release(ctx, id); err != nil {
		log.Fatal(err)
	}
	n, err := seats.AvailablePermits(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "are free")
	// Output: 3 are free
}

// A permit is held while a function runs.
func ExampleSemaphore_Do() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	ctx := context.Background()
	licences := permitsemaphore.New(client, "licences")
	if _, err := licences.TrySetPermits(ctx, 3); err != nil { // once, by whoever comes first
		log.Fatal(err)
	}
	err := licences.Do(ctx, func(ctx context.Context) error { // ctx is done the moment the permit is lost
		n, err := licences.AvailablePermits(ctx)
		fmt.Println("simulating;", n, "more may")
		return err
	})
	if err != nil {
		log.Print(err)
	}
	// Output: simulating; 2 more may
}
