// Example enqueues a task once a second and writes a line for each: start it twice. One
// process schedules, and both process tasks.
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

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	latchkeyasynq "github.com/latchkey-go/latchkey/contrib/asynq"
	"github.com/latchkey-go/latchkey/elect"
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

	work := asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		fmt.Println(t.Type(), "in process", os.Getpid())
		return nil
	})
	oneOfEachType := latchkeyasynq.Unique(client, (*asynq.Task).Type)
	server := asynq.NewServerFromRedisClient(rdb, asynq.Config{LogLevel: asynq.ErrorLevel})
	if err := server.Start(oneOfEachType(work)); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()

	err = latchkeyasynq.RunScheduler(ctx, elect.New(client, "scheduler", elect.Lease(3*time.Second)), func() (*asynq.Scheduler, error) {
		told := func(*asynq.TaskInfo, error) { fmt.Println("enqueued by process", os.Getpid()) }
		s := asynq.NewSchedulerFromRedisClient(rdb, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel, PostEnqueueFunc: told})
		_, err := s.Register("@every 1s", asynq.NewTask("tick", nil))
		return s, err
	})
	if ctx.Err() == nil {
		log.Fatal(err)
	}
}
