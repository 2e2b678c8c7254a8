package rwlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rwlock"
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

func Example() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	catalogue := rwlock.New(client, "catalogue")

	ctx := context.Background()
	err := latchkey.Do(ctx, catalogue.ReadLock(), func(ctx context.Context) error {
		fmt.Println("reading, like others")
		return ctx.Err() // done the moment the lease is lost
	})
	if err != nil {
		log.Print(err)
	}
	err = latchkey.Do(ctx, catalogue.WriteLock(), func(ctx context.Context) error {
		fmt.Println("writing, alone")
		return ctx.Err()
	})
	if err != nil {
		log.Print(err)
	}
	// Output:
	// reading, like others
	// writing, alone
}

// A writer continues to read what it has written, together with other readers.
func ExampleRWLock_Downgrade() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	catalogue := rwlock.New(client, "catalogue")

	w, err := catalogue.WriteLock().Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r, err := catalogue.Downgrade(ctx, w) // w is given back
	if err != nil {
		log.Fatal(err)
	}
	other, err := catalogue.ReadLock().TryLock(ctx)
	fmt.Println("others read too:", err == nil)
	if err := other.Unlock(ctx); err != nil {
		log.Print(err)
	}
	if err := r.Unlock(ctx); err != nil {
		log.Print(err)
	}
	// Output: others read too: true
}

// A waiting writer goes before new readers for at most a second.
func ExampleWriterPreference() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	catalogue := rwlock.New(client, "catalogue", rwlock.WriterPreference(time.Second))

	err := latchkey.Do(context.Background(), catalogue.WriteLock(), func(context.Context) error {
		fmt.Println("writing")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output: writing
}
