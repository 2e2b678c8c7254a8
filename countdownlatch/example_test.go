package countdownlatch_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
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

// A program starts its workers and waits until all are ready.
func Example() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	ctx := context.Background()
	ready := countdownlatch.New(client, "ready")
	if _, err := ready.TrySetCount(ctx, 3); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		go func() { // in practice, in other processes
			if err := ready.CountDown(ctx); err != nil {
				log.Print(err)
			}
		}()
	}
	if err := ready.Await(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("all are ready")
	// Output: all are ready
}
