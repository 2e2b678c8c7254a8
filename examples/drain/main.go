// Drain stops on SIGTERM as an orchestrator expects: it begins nothing new, ends
// what it has begun, and gives its lock back before it exits.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

// drain is how long a job may go on after SIGTERM: less than the orchestrator
// allows (terminationGracePeriodSeconds in Kubernetes).
const drain = 20 * time.Second

// work does one job after the other until stop is done.
func work(stop context.Context, lock latchkey.Locker, job func(context.Context) error) error {
	// A job has a context of its own, which goes on for a while after SIGTERM.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	context.AfterFunc(stop, func() { time.AfterFunc(drain, cancel) })

	for stop.Err() == nil {
		err := latchkey.Do(ctx, lock, job, latchkey.Wait(time.Second)) // looks at stop once a second
		if err != nil && !errors.Is(err, latchkey.ErrNotAcquired) {
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
	client := latchkey.New(rdb)
	defer client.Close() // gives back what is still held

	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	lock := rlock.New(client, "mailer")

	err = work(stop, lock, func(ctx context.Context) error {
		fmt.Println("sending mail")
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(syscall.SIGTERM) // the orchestrator does that
		}
		if err != nil {
			return err
		}
		<-stop.Done()
		fmt.Println("SIGTERM has come; the job may end:", ctx.Err() == nil)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	locked, err := lock.IsLocked(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("still locked:", locked)
}
