// Pool has at most three workers convert at a time, on all machines together.
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
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// convert does one job while holding a permit. The permit of a machine that
// crashes is back when its lease ends.
func convert(ctx context.Context, converters *permitsemaphore.Semaphore, work func(context.Context)) error {
	return converters.Do(ctx, func(ctx context.Context) error {
		work(ctx) // ctx is done the moment the permit is lost
		return nil
	})
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

	var machines sync.WaitGroup
	var busy, most, done atomic.Int32
	for range 2 {
		client := latchkey.New(rdb)
		defer client.Close()
		converters := permitsemaphore.New(client, "converters")
		if _, err := converters.TrySetPermits(ctx, 3); err != nil { // whoever comes first
			log.Fatal(err)
		}
		for range 6 {
			machines.Go(func() {
				err := convert(ctx, converters, func(context.Context) {
					now := busy.Add(1)
					for most.Load() < now && !most.CompareAndSwap(most.Load(), now) {
					}
					time.Sleep(20 * time.Millisecond)
					busy.Add(-1)
					done.Add(1)
				})
				if err != nil {
					log.Print(err)
				}
			})
		}
	}
	machines.Wait()
	fmt.Printf("%d jobs done, no more than 3 at a time: %t\n", done.Load(), most.Load() <= 3)
}
