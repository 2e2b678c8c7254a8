// Fanout hands parts of a job to workers and waits until all parts are done.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for the whole job
	defer cancel()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client := latchkey.New(rdb)
	defer client.Close()

	const parts = 5
	job := "import:2026-11-26" // a name for each job: a latch opens once
	latch := countdownlatch.New(client, job)
	if _, err := latch.TrySetCount(ctx, parts); err != nil { // before the first part is handed out
		log.Fatal(err)
	}

	var rows atomic.Int32
	for range parts { // a queue, and other machines, as a rule
		go func() {
			rows.Add(100)
			if err := countdownlatch.New(client, job).CountDown(ctx); err != nil {
				log.Print(err)
			}
		}()
	}

	if err := latch.Await(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("all parts are done,", rows.Load(), "rows")
}
