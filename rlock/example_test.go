package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
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

func Example() {
	rdb, stop := connect() // redis.NewClient(…)
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	lock := rlock.New(client, "orders:42") // a name; this asks nobody anything

	ctx := context.Background()
	hold, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", hold.Name())
	if err := hold.Unlock(ctx); err != nil {
		log.Print(err) // with errors.Is(err, latchkey.ErrLeaseLost): not alone all the time
	}
	// Output: holding orders:42
}

func ExampleLock_TryLock() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	lock := rlock.New(client, "orders:42")

	hold, err := lock.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = lock.TryLock(ctx, latchkey.Wait(50*time.Millisecond))
	if errors.Is(err, latchkey.ErrNotAcquired) {
		fmt.Println(err)
	}
	if err := hold.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rlock: trylock "orders:42": not acquired
}

// A lock that people take by hand outlives the program that took it.
func ExampleLock_ExtendHolder() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	lock := rlock.New(client, "deploy")

	hold, err := lock.Lock(ctx, latchkey.Lease(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	id := hold.HolderID() // what that program has written down

	extended, err := lock.ExtendHolder(ctx, id, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	freed, err := lock.ForceUnlockHolder(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(extended, freed)
	// Output: true true
}

// The protected resource refuses a token older than the newest it has seen:
// that of a process that slept through the end of its lease, say.
func ExampleFenced() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	lock := rlock.New(client, "ledger", rlock.Fenced())

	var seen int64 // kept by the resource
	write := func(text string, token int64) {
		if token < seen {
			fmt.Println("refused:", text)
			return
		}
		seen = token
		fmt.Println("written:", text)
	}

	slow, err := lock.Lock(ctx, latchkey.Lease(50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-slow.Lost() // it does not look, and goes on
	quick, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = quick.Unlock(ctx) }()
	write("quick", quick.Token())
	write("slow", slow.Token())
	// Output:
	// written: quick
	// refused: slow
}

func ExampleNonReentrant() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	lock := rlock.New(client, "orders:42", rlock.NonReentrant())

	ctx := latchkey.WithHolder(context.Background())
	hold, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = hold.Unlock(ctx) }()
	if _, err := lock.Lock(ctx); errors.Is(err, latchkey.ErrReentry) {
		fmt.Println("this holder has it already")
	}
	// Output: this holder has it already
}

// A range over the channel is a critical section.
func ExampleLock_LockAsync() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()

	ch := rlock.New(client, "orders:42").LockAsync(ctx)
	// … something else meanwhile …
	for r := range ch {
		if r.Err != nil {
			log.Fatal(r.Err)
		}
		fmt.Println("holding", r.Value.Name())
		if err := r.Value.Unlock(ctx); err != nil {
			log.Print(err)
		}
	}
	// Output: holding orders:42
}

// Waiters poll, and nothing is published.
func ExampleSpin() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	lock := rlock.New(client, "orders:42", rlock.Spin(rlock.Backoff{Max: 50 * time.Millisecond}))

	err := latchkey.Do(context.Background(), lock, func(context.Context) error {
		fmt.Println("holding", lock.Name())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output: holding orders:42
}
