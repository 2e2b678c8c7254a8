// First is the first program of the README.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()
	client := latchkey.New(rdb) // one for each Redis; the whole program shares it
	defer client.Close()

	lock := rlock.New(client, "orders:42") // only a name: it asks Redis nothing and holds nothing
	err := latchkey.Do(context.Background(), lock, func(ctx context.Context) error {
		fmt.Println("shipping order 42, and nobody else is")
		return ctx.Err() // ctx is done the moment the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
}
