package semaphore_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/semaphore"
)

// At most ten exports run at a time, in all processes together.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()

	ctx := context.Background()
	exports := semaphore.New(c, "exports")
	if _, err := exports.TrySetPermits(ctx, 10); err != nil { // once, by whoever comes first
		log.Fatal(err)
	}

	switch err := exports.TryAcquire(ctx, 1, latchkey.Wait(30*time.Second)); {
	case errors.Is(err, latchkey.ErrNotAcquired):
		log.Print("too many exports are running")
		return
	case err != nil:
		log.Fatal(err)
	}
	defer func() {
		if err := exports.Release(ctx, 1); err != nil {
			log.Print(err)
		}
	}()
	export()
}

func export() {}
