// Leader has one of many instances do what only one may do, for as long as it
// lives.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/elect"
)

func main() {
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	ctx := context.Background()

	leads := make(chan string)
	start := func(name string) (instance *elect.Election, stop func()) {
		ctx, cancel := context.WithCancel(ctx)
		client := latchkey.New(rdb)
		instance = elect.New(client, "poller", elect.Identity(name))
		stopped := make(chan bool)
		go func() {
			defer close(stopped)
			defer client.Close()
			err := instance.Run(ctx, func(ctx context.Context, _ elect.Term) error {
				leads <- name
				<-ctx.Done() // the work of a leader
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				log.Print(err)
			}
		}()
		return instance, func() { cancel(); <-stopped }
	}

	a, stopA := start("a")
	fmt.Println(<-leads, "leads")
	b, stopB := start("b")
	if err := a.Transfer(ctx, "b"); err != nil { // such as before a is replaced by a new version
		log.Fatal(err)
	}
	fmt.Println(<-leads, "leads")
	leader, err := a.Leader(ctx) // anybody can ask
	fmt.Println(leader.Identity, err)
	if err := b.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-leads, "leads")
	stopA()
	fmt.Println("a has stopped")
	fmt.Println(<-leads, "leads")
	stopB()
}
