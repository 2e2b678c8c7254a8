// Example writes a line once a second, however many of it run: start it twice.
//
//	REDIS_URL=redis://localhost:6379 go run ./example & REDIS_URL=redis://localhost:6379 go run ./example
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/latchkey-go/latchkey"
	latchkeycron "github.com/latchkey-go/latchkey/contrib/cron"
	"github.com/latchkey-go/latchkey/once"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client := latchkey.New(rdb)
	defer client.Close()

	tick := func(_ context.Context, fire time.Time) error {
		fmt.Println(fire.Unix())
		return nil
	}
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	schedule, err := parser.Parse("* * * * * *")
	if err != nil {
		log.Fatal(err)
	}
	c := cron.New()
	job := once.New(client, "tick", once.Keep(time.Hour))
	wrap := latchkeycron.Once(ctx, c, schedule, job, cron.DefaultLogger)
	c.Schedule(schedule, cron.NewChain(wrap).Then(latchkeycron.Func(tick)))
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
}
