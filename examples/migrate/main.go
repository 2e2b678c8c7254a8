// Migrate has the first instance that starts change the schema, while the others
// wait.
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

const wanted = 7 // the version of the schema that this program needs

// A database remembers which version its schema has. Here that is in memory.
type database struct{ version int }

func (db *database) Version(ctx context.Context) (int, error) { return db.version, ctx.Err() }

func (db *database) Migrate(_ context.Context, to int) error {
	fmt.Println("migrating from", db.version, "to", to)
	db.version = to
	return nil
}

// migrate returns when the schema has the wanted version, whoever saw to it.
func migrate(ctx context.Context, client *latchkey.Client, db *database) error {
	err := latchkey.Do(ctx, rlock.New(client, "migrate:shop"), func(ctx context.Context) error {
		version, err := db.Version(ctx) // looked up under the lock: another instance may have been here
		if err != nil || version >= wanted {
			return err
		}
		return db.Migrate(ctx, wanted)
	}, latchkey.Wait(5*time.Minute))
	if errors.Is(err, latchkey.ErrNotAcquired) {
		return fmt.Errorf("another instance is still migrating: %w", err)
	}
	return err
}

func main() {
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()

	db := &database{version: 6}
	var instances sync.WaitGroup
	for range 3 {
		instances.Go(func() {
			client := latchkey.New(rdb)
			defer client.Close()
			if err := migrate(context.Background(), client, db); err != nil {
				log.Print(err)
			}
		})
	}
	instances.Wait()
	fmt.Println("all instances run on version", db.version)
}
