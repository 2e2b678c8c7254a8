package rwlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rwlock"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()
	catalogue := rwlock.New(c, "catalogue")

	ctx := context.Background()
	err := latchkey.Do(ctx, catalogue.ReadLock(), func(ctx context.Context) error {
		fmt.Println("reading, like others")
		return ctx.Err() // done the moment the lease is lost
	})
	if err != nil {
		log.Print(err)
	}
	err = latchkey.Do(ctx, catalogue.WriteLock(), func(ctx context.Context) error {
		fmt.Println("writing, alone")
		return ctx.Err()
	})
	if err != nil {
		log.Print(err)
	}
}

// A writer goes on reading what it has written, and others read with it.
func ExampleRWLock_Downgrade() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c := latchkey.New(rdb)
	defer c.Close()
	catalogue := rwlock.New(c, "catalogue")

	publish := func(ctx context.Context) error {
		w, err := catalogue.WriteLock().Lock(ctx)
		if err != nil {
			return err
		}
		// … write, with w.Context() …
		r, err := catalogue.Downgrade(ctx, w)
		if err != nil {
			_ = w.Unlock(ctx) // harmless if it was given back
			return err
		}
		defer r.Unlock(ctx)
		// … tell what was written, with r.Context() …
		return nil
	}
	if err := publish(context.Background()); err != nil {
		log.Print(err)
	}
}
