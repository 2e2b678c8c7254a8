// Java holds a lock that a Java service with Redisson takes part in.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

func main() {
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client := latchkey.New(rdb, latchkey.WithID("go-worker")) // a random one, as a rule
	defer client.Close()

	// While Java has the lock, this waits: for the unlock, or for the end of the
	// lease of a JVM that has crashed.
	lock := rlock.New(client, "orders:42")
	err = latchkey.Do(context.Background(), lock, func(ctx context.Context) error {
		// What Redisson finds in Redis: an owner, and how often it has taken the lock.
		owners, err := rdb.HGetAll(ctx, lock.Name()).Result()
		for owner, count := range owners {
			id, _, _ := strings.Cut(owner, ":") // the client; behind it, the holder
			fmt.Println(id, "has taken it", count, "time")
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
