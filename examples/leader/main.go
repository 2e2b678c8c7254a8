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
	"github.com/latchkey-go/latchkey/rlock"
)

// campaign calls lead whenever this instance is the leader, until ctx is done. lead
// returns when its context is done: the instance stops, or leads no longer.
func campaign(ctx context.Context, client *latchkey.Client, name string, lead func(context.Context) error) error {
	leader := rlock.New(client, "leader")
	for ctx.Err() == nil {
		err := latchkey.Do(ctx, leader, lead, latchkey.Label(name))
		switch {
		case ctx.Err() != nil: // the instance stops
		case errors.Is(err, latchkey.ErrLeaseLost):
			log.Print(name, " has lost the lead: ", err) // and stands again
		case err != nil:
			return err
		}
	}
	return nil
}

func main() {
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()

	leads := make(chan string)
	start := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		client := latchkey.New(rdb)
		stopped := make(chan bool)
		go func() {
			defer close(stopped)
			defer client.Close()
			err := campaign(ctx, client, name, func(ctx context.Context) error {
				leads <- name
				<-ctx.Done() // the work of a leader
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		}()
		return func() { cancel(); <-stopped }
	}

	stopA := start("a")
	fmt.Println(<-leads, "leads")
	stopB := start("b")
	stopA()
	fmt.Println("a has stopped")
	fmt.Println(<-leads, "leads")
	stopB()
}
