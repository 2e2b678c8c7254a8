package elect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/elect"
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

// reconcile is the work of the examples: it is done at once.
func reconcile(context.Context, elect.Term) error {
	fmt.Println("reconciling")
	return nil
}

// A leader works for as long as its context lives. Here it is done and returns, so that
// Run returns as well.
func Example() {
	client, stop := newClient()
	defer stop()
	e := elect.New(client, "reconciler", elect.Identity("host-1"))
	err := e.Run(context.Background(), reconcile)
	fmt.Println(err)
	// Output:
	// reconciling
	// <nil>
}

// The usual function of a leader starts what only a leader does, and returns when its
// context is done: at the end of the program, or at a loss, after which Run calls it
// again in the next term that it wins.
func ExampleElection_Run() {
	client, stop := newClient()
	defer stop()
	ctx, shutDown := context.WithCancel(context.Background())
	err := elect.New(client, "reconciler").Run(ctx, func(ctx context.Context, t elect.Term) error {
		fmt.Println("leads:", t.Number > 0)
		shutDown() // in a program, a signal does it
		<-ctx.Done()
		return nil
	})
	fmt.Println(err)
	// Output:
	// leads: true
	// context canceled
}

// New makes a candidate, which can also only look who leads.
func ExampleNew() {
	client, stop := newClient()
	defer stop()
	_, err := elect.New(client, "reconciler").Leader(context.Background())
	fmt.Println(errors.Is(err, elect.ErrNoLeader))
	// Output: true
}

// The identity is what others see of the leader.
func ExampleIdentity() {
	client, stop := newClient()
	defer stop()
	e := elect.New(client, "reconciler", elect.Identity("host-1"))
	_ = e.Run(context.Background(), func(ctx context.Context, _ elect.Term) error {
		l, err := elect.New(client, "reconciler").Leader(ctx)
		fmt.Println(l.Identity, err)
		return nil
	})
	// Output: host-1 <nil>
}

// The value tells others where to find the leader.
func ExampleValue() {
	client, stop := newClient()
	defer stop()
	e := elect.New(client, "reconciler", elect.Value("10.0.0.7:8080"))
	_ = e.Run(context.Background(), func(ctx context.Context, _ elect.Term) error {
		l, err := e.Leader(ctx)
		fmt.Println(l.Value, err)
		return nil
	})
	// Output: 10.0.0.7:8080 <nil>
}

// With a lease of 5 s a leader whose process dies is replaced within 6 s.
func ExampleLease() {
	client, stop := newClient()
	defer stop()
	e := elect.New(client, "reconciler", elect.Lease(5*time.Second))
	fmt.Println(e.Run(context.Background(), reconcile))
	// Output:
	// reconciling
	// <nil>
}

// Whoever observes sees each leader, and the zero Leader when nobody leads.
func ExampleElection_Observe() {
	client, stop := newClient()
	defer stop()
	e := elect.New(client, "reconciler", elect.Identity("host-1"))
	leads := make(chan struct{})
	seen := make(chan struct{})
	go func() {
		_ = e.Run(context.Background(), func(context.Context, elect.Term) error {
			close(leads)
			<-seen
			return nil
		})
	}()
	<-leads
	for l := range e.Observe(context.Background()) {
		if l.Term.Number == 0 {
			fmt.Println("nobody leads")
			break
		}
		fmt.Println(l.Identity, "leads")
		close(seen)
	}
	// Output:
	// host-1 leads
	// nobody leads
}

// Before its process stops, a leader hands over to a candidate of its choice.
func ExampleElection_Transfer() {
	client, stop := newClient()
	defer stop()
	ctx, end := context.WithCancel(context.Background())
	leads := make(chan string)
	ended := make(chan error)
	stand := func(id string) *elect.Election {
		e := elect.New(client, "reconciler", elect.Identity(id))
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, _ elect.Term) error {
				leads <- id
				<-ctx.Done()
				return nil
			})
		}()
		return e
	}
	first := stand("host-1")
	fmt.Println(<-leads)
	stand("host-2")
	if err := first.Transfer(ctx, "host-2"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-leads)
	fmt.Println(errors.Is(first.Transfer(ctx, "host-3"), elect.ErrNotLeader))
	end()
	fmt.Println(<-ended, <-ended)
	// Output:
	// host-1
	// host-2
	// true
	// context canceled context canceled
}
