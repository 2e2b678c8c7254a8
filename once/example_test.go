package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/once"
)

// connect returns a connection to an in-memory server, so that the examples run
// everywhere. In a program it is redis.NewClient, NewFailoverClient or
// NewClusterClient.
func connect() (rdb *redis.Client, stop func()) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // leases end as they do in Redis
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

// newClient returns a client on such a connection.
func newClient() (c *latchkey.Client, stop func()) {
	rdb, disconnect := connect()
	c = latchkey.New(rdb)
	return c, func() {
		_ = c.Close()
		disconnect()
	}
}

// midnight is the fire of the examples.
var midnight = time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC)

// report is the work of the examples.
func report(context.Context) error {
	fmt.Println("writing the report")
	return nil
}

// run runs the job for a fire, and prints whether it did.
func run(job *once.Job, fire time.Time) {
	ran, err := job.Do(context.Background(), fire, report)
	fmt.Println("ran:", ran, err)
}

// Every machine calls Do for each fire, and one of them runs the job.
func Example() {
	client, stop := newClient()
	defer stop()
	job := once.New(client, "nightly-report", once.AtMost(2*time.Hour))
	for range 3 { // in practice, on three machines
		run(job, midnight)
	}
	last, err := job.Last(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(last.Fire.UTC(), last.Outcome)
	// Output:
	// writing the report
	// ran: true <nil>
	// ran: false <nil>
	// ran: false <nil>
	// 2027-01-15 00:00:00 +0000 UTC done
}

// A job that runs once a minute needs no scheduler that knows the fire.
func ExampleEvery() {
	client, stop := newClient()
	defer stop()
	fire := once.Every(time.Minute)
	fmt.Println(fire.Second(), fire.Nanosecond())
	run(once.New(client, "tick"), fire)
	// Output:
	// 0 0
	// writing the report
	// ran: true <nil>
}

// A run that fails is tried again, here or on another machine.
func ExampleRetry() {
	client, stop := newClient()
	defer stop()
	job := once.New(client, "nightly-report", once.OnFailure(once.Retry(2)))
	tries := 0
	ran, err := job.Do(context.Background(), midnight, func(context.Context) error {
		if tries++; tries == 1 {
			return errors.New("the printer has no paper")
		}
		return nil
	})
	fmt.Println(ran, err, tries)
	// Output: true <nil> 2
}

// By default a run that has failed is not tried again.
func ExampleOnFailure() {
	client, stop := newClient()
	defer stop()
	job := once.New(client, "nightly-report", once.OnFailure(once.Skip))
	_, err := job.Do(context.Background(), midnight, func(context.Context) error {
		return errors.New("the printer has no paper")
	})
	fmt.Println(err)
	run(job, midnight)
	// Output:
	// the printer has no paper
	// ran: false <nil>
}

// A run that lasts for two hours is taken for dead, and its context ends.
func ExampleAtMost() {
	client, stop := newClient()
	defer stop()
	run(once.New(client, "nightly-report", once.AtMost(2*time.Hour)), midnight)
	// Output:
	// writing the report
	// ran: true <nil>
}

// Runs are known for a month.
func ExampleKeep() {
	client, stop := newClient()
	defer stop()
	job := once.New(client, "nightly-report", once.Keep(30*24*time.Hour))
	run(job, midnight)
	run(job, midnight.AddDate(0, 0, 1))
	runs, err := job.Runs(context.Background(), 20)
	fmt.Println(len(runs), err)
	// Output:
	// writing the report
	// ran: true <nil>
	// writing the report
	// ran: true <nil>
	// 2 <nil>
}

// A fire waits for the end of the run before.
func ExampleNoOverlap() {
	client, stop := newClient()
	defer stop()
	run(once.New(client, "import", once.NoOverlap()), midnight)
	// Output:
	// writing the report
	// ran: true <nil>
}

// A report of yesterday is of no use.
func ExampleNotLaterThan() {
	client, stop := newClient()
	defer stop()
	job := once.New(client, "nightly-report", once.NotLaterThan(time.Hour))
	_, err := job.Do(context.Background(), time.Now().Add(-24*time.Hour), report)
	fmt.Println(errors.Is(err, once.ErrLate))
	// Output: true
}

// Machines whose clocks agree do not all ask at once.
func ExampleJitter() {
	client, stop := newClient()
	defer stop()
	run(once.New(client, "nightly-report", once.Jitter(5*time.Millisecond)), midnight)
	// Output:
	// writing the report
	// ran: true <nil>
}

// The last run says who it was.
func ExampleLabel() {
	client, stop := newClient()
	defer stop()
	job := once.New(client, "nightly-report", once.Label("billing"))
	run(job, midnight)
	last, err := job.Last(context.Background())
	fmt.Println(last.Label, err)
	// Output:
	// writing the report
	// ran: true <nil>
	// billing <nil>
}
