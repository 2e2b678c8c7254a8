// Cron runs a job once a minute, however many machines run the program.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

// once runs job, unless another machine has begun it within the last 50 seconds.
func once(ctx context.Context, client *latchkey.Client, job func(context.Context) error) error {
	err := latchkey.Do(ctx, rlock.New(client, "cron:report"), job,
		latchkey.Wait(0),                     // one attempt: the job is not done again after the other machine
		latchkey.HoldAtLeast(50*time.Second), // closed for a machine whose clock is a little late, too
	)
	if errors.Is(err, latchkey.ErrNotAcquired) {
		return nil // another machine does it, or has done it
	}
	return err
}

func main() {
	ctx := context.Background()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()

	// Three machines, whose minute begins at about the same time. On a real one,
	// a time.Ticker or a crontab calls once.
	var machines sync.WaitGroup
	for range 3 {
		machines.Go(func() {
			client := latchkey.New(rdb)
			defer client.Close()
			err := once(ctx, client, func(context.Context) error {
				fmt.Println("writing the report")
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	machines.Wait()
}
