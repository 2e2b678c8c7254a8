// Cron runs a job once a minute, however many machines run the program.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/once"
)

func main() {
	ctx := context.Background()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()

	// Three machines, whose schedulers call Do for the same minute. On a real one the
	// scheduler knows the fire, or once.Every(time.Minute) is the one that has begun.
	fire := once.Every(time.Minute)
	var machines sync.WaitGroup
	for range 3 {
		machines.Go(func() {
			client := latchkey.New(rdb)
			defer client.Close()
			job := once.New(client, "report", once.OnFailure(once.Retry(1)))
			_, err := job.Do(ctx, fire, func(context.Context) error {
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
