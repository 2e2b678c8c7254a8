// Fill fills a cache once for all machines, however many of them miss it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/flight"
)

// A Catalog is what the database takes long to say.
type Catalog struct {
	Items int
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()

	var queries atomic.Int32
	query := func(ctx context.Context) (Catalog, error) { // of the database
		queries.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
			return Catalog{Items: 1200}, nil
		case <-ctx.Done(): // nobody waits any more, or the lock is lost
			return Catalog{}, context.Cause(ctx)
		}
	}

	const key = "catalog:de"
	var machines []*latchkey.Client
	for range 3 {
		client := latchkey.New(rdb)
		defer client.Close()
		machines = append(machines, client)
	}
	if err := flight.Forget(ctx, machines[0], key); err != nil { // so that the program can run twice
		log.Fatal(err)
	}

	read := func(client *latchkey.Client) Catalog {
		catalog, _, err := flight.Do(ctx, client, key, query,
			flight.TTL(time.Minute), // after that, somebody queries again,
			flight.Stale(time.Hour), // in the background, while all get the old one
			flight.AtMost(time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		return catalog
	}
	var requests sync.WaitGroup
	for _, client := range machines {
		for range 100 {
			requests.Go(func() { read(client) })
		}
	}
	requests.Wait()
	fmt.Println(read(machines[0]).Items, "items,", queries.Load(), "query")

	// A change to the database makes the value wrong.
	if err := flight.Forget(ctx, machines[1], key); err != nil {
		log.Fatal(err)
	}
	read(machines[2])
	fmt.Println("after a change,", queries.Load(), "queries")
}
