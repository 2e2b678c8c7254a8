package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
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
	client := latchkey.New(rdb) // one for each Redis, shared by the whole program
	defer client.Close()

	ship := func(ctx context.Context, order int) error {
		hold, err := rlock.New(client, fmt.Sprintf("orders:%d", order)).Lock(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = hold.Unlock(ctx) }() // works although ctx is cancelled by then

		// Work under the lock uses the Hold's Context, which is done the moment
		// the lease is lost.
		ctx = hold.Context()
		fmt.Println("shipping order", order)
		return ctx.Err()
	}
	if err := ship(context.Background(), 42); err != nil {
		log.Fatal(err)
	}
	// Output: shipping order 42
}

func ExampleDo() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	err := latchkey.Do(context.Background(), rlock.New(client, "report"), func(ctx context.Context) error {
		fmt.Println("nobody else writes the report now")
		return nil
	})
	switch {
	case errors.Is(err, latchkey.ErrLeaseLost):
		log.Print("somebody else may have begun before we were done: ", err)
	case err != nil:
		log.Print(err)
	}
	// Output: nobody else writes the report now
}

func ExampleDoValue() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	number, err := latchkey.DoValue(context.Background(), rlock.New(client, "invoices"), func(ctx context.Context) (int64, error) {
		return rdb.Incr(ctx, "last-invoice").Result()
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoice", number)
	// Output: invoice 1
}

// Inside Do, HoldFrom gives access to the token.
func ExampleHoldFrom() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	lock := rlock.New(client, "inventory", rlock.Fenced())
	err := latchkey.Do(context.Background(), lock, func(ctx context.Context) error {
		hold, ok := latchkey.HoldFrom(ctx)
		fmt.Println(ok, hold.Name(), hold.Token() > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: true inventory true
}

// A program under development runs in one process, without Redis.
func ExampleNewLocal() {
	lock := latchkey.NewLocal("orders:42") // rlock.New(client, "orders:42")
	err := latchkey.Do(context.Background(), lock, func(ctx context.Context) error {
		_, err := lock.TryLock(context.Background()) // somebody else
		fmt.Println("taken:", errors.Is(err, latchkey.ErrNotAcquired))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: taken: true
}

// A worker that must not do a job twice asks once and otherwise skips the job.
func ExampleDo_unlessTaken() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	job := rlock.New(client, "nightly")

	err := latchkey.Do(ctx, job, func(ctx context.Context) error {
		// Another worker tries the same job meanwhile.
		err := latchkey.Do(context.Background(), job, func(context.Context) error {
			fmt.Println("twice!")
			return nil
		}, latchkey.Wait(0))
		if errors.Is(err, latchkey.ErrNotAcquired) {
			fmt.Println("it is being done already")
			return nil
		}
		return err
	}, latchkey.Wait(0))
	if err != nil {
		log.Print(err)
	}
	// Output: it is being done already
}

// A holder in the context is what a thread is in Java: it re-enters every lock
// that it holds, and Unlock needs no Hold.
func ExampleWithHolder() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	lock := rlock.New(client, "account:7")

	ctx := latchkey.WithHolder(context.Background()) // once for each worker
	for range 2 {
		if _, err := lock.Lock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	n, err := lock.HoldCount(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held", n, "times")
	for range 2 {
		if err := lock.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	locked, err := lock.IsLocked(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked:", locked)
	// Output:
	// held 2 times
	// locked: false
}

// A lost lease ends the work under the lock.
func ExampleHold_Lost() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()

	hold, err := rlock.New(client, "leader").Lock(ctx, latchkey.Lease(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-hold.Lost():
		fmt.Println("not the leader any more:", context.Cause(hold.Context()))
	case <-time.After(10 * time.Second):
		fmt.Println("leading")
	}
	if err := hold.Unlock(ctx); errors.Is(err, latchkey.ErrNotHeld) {
		fmt.Println("nothing to unlock")
	}
	// Output:
	// not the leader any more: lease lost
	// nothing to unlock
}

// A request under the lock ends when the lock is lost.
func ExampleHold_Context() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()

	lock := rlock.New(client, "inventory")
	hold, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = hold.Unlock(ctx) }()
	req, err := http.NewRequestWithContext(hold.Context(), http.MethodPost, "http://inventory/recount", http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(req.Method, req.URL, "while the lock is held:", req.Context().Err() == nil)

	// The Context also carries the holder: code that is called with it may take
	// the lock again.
	again, err := lock.TryLock(hold.Context())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("re-entered:", again.Holder() == hold.Holder())
	if err := again.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// POST http://inventory/recount while the lock is held: true
	// re-entered: true
}

func ExampleError_MaybeApplied() {
	rdb, stop := connect()
	stop() // there is no server
	client := latchkey.New(rdb)
	defer client.Close()

	_, err := rlock.New(client, "a").TryLock(context.Background())
	var e *latchkey.Error
	if errors.As(err, &e) {
		fmt.Println(e.Kind, e.Op, e.Name, "may have been granted:", e.MaybeApplied())
	}
	// Output: rlock trylock a may have been granted: false
}
