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

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	latchkeygocron "github.com/latchkey-go/latchkey/contrib/gocron"
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

	locker := latchkeygocron.Once(client, time.Second)
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	tick := func() { fmt.Println("tick, in process", os.Getpid()) }
	if _, err := s.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(tick), gocron.WithName("tick")); err != nil {
		log.Fatal(err)
	}
	s.Start()
	<-ctx.Done()
	if err := s.Shutdown(); err != nil {
		log.Print(err)
	}
}
