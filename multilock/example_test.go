package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
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

// A transfer locks both accounts, in whichever order they are named.
func ExampleNew() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	both := multilock.New(rlock.New(client, "account:7"), fairlock.New(client, "account:9"))
	err := latchkey.Do(context.Background(), both, func(ctx context.Context) error {
		fmt.Println("moving money")
		return ctx.Err() // done the moment either is lost
	})
	if err != nil {
		log.Print(err)
	}
	// Output: moving money
}

// Two orders with a common article exclude each other.
func ExampleNewGroup() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()

	order := multilock.NewGroup(client, "articles", "lamp", "chair")
	err := latchkey.Do(ctx, order, func(context.Context) error {
		for _, article := range []string{"chair", "table"} {
			hold, err := multilock.NewGroup(client, "articles", article).TryLock(ctx)
			if errors.Is(err, latchkey.ErrNotAcquired) {
				fmt.Println(article, "is taken")
				continue
			}
			if err != nil {
				return err
			}
			fmt.Println(article, "is free")
			if err := hold.Unlock(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output:
	// chair is taken
	// table is free
}

// Three independent servers; one of them may be down.
func ExampleNewRed() {
	var locks []latchkey.Locker
	for range 3 {
		rdb, stop := connect()
		defer stop()
		client := latchkey.New(rdb)
		defer client.Close()
		locks = append(locks, rlock.New(client, "orders:42"))
	}
	err := latchkey.Do(context.Background(), multilock.NewRed(locks...), func(ctx context.Context) error {
		fmt.Println("holding a majority")
		return ctx.Err()
	})
	if err != nil {
		log.Print(err)
	}
	// Output: holding a majority
}
