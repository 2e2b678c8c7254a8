package flight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/flight"
)

// newClient returns a client of an in-memory server, so that the examples run
// everywhere. In a program the connection is redis.NewClient, NewFailoverClient or
// NewClusterClient.
func newClient() (c *latchkey.Client, stop func()) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // leases end as they do in Redis
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	c = latchkey.New(rdb)
	return c, func() {
		_ = c.Close()
		_ = rdb.Close()
		server.Close()
	}
}

// A Report is the value of the examples.
type Report struct {
	Month string
	Pages int
}

// build is the work of the examples.
func build(context.Context) (Report, error) {
	fmt.Println("building")
	return Report{"2027-01", 12}, nil
}

// Every process calls Do, and one of them builds the report.
func ExampleDo() {
	client, stop := newClient()
	defer stop()
	for range 3 { // in practice, on three machines
		report, shared, err := flight.Do(context.Background(), client, "report:2027-01", build, flight.TTL(time.Hour))
		fmt.Println(report.Pages, shared, err)
	}
	// Output:
	// building
	// 12 false <nil>
	// 12 true <nil>
	// 12 true <nil>
}

// A report is built anew when it is a minute old.
func ExampleTTL() {
	client, stop := newClient()
	defer stop()
	for range 2 {
		report, shared, err := flight.Do(context.Background(), client, "report:2027-01", build, flight.TTL(time.Minute))
		fmt.Println(report.Pages, shared, err)
	}
	// Output:
	// building
	// 12 false <nil>
	// 12 true <nil>
}

// An error of fn is not kept, unless an ErrorTTL says so.
func ExampleErrorTTL() {
	client, stop := newClient()
	defer stop()
	for range 2 {
		_, shared, err := flight.Do(context.Background(), client, "report:2027-01", func(context.Context) (Report, error) {
			return Report{}, errors.New("the printer has no paper")
		}, flight.ErrorTTL(time.Minute))
		var elsewhere *flight.Error
		fmt.Println(shared, errors.As(err, &elsewhere), err)
	}
	// Output:
	// false false the printer has no paper
	// true true the printer has no paper
}

// For a day an old report will do, while one process builds a new one.
func ExampleStale() {
	client, stop := newClient()
	defer stop()
	report, _, err := flight.Do(context.Background(), client, "report:2027-01", build,
		flight.TTL(time.Hour), flight.Stale(24*time.Hour))
	fmt.Println(report.Month, err)
	// Output:
	// building
	// 2027-01 <nil>
}

// A report that takes an hour is given up.
func ExampleAtMost() {
	client, stop := newClient()
	defer stop()
	_, _, err := flight.Do(context.Background(), client, "report:2027-01", build, flight.AtMost(time.Hour))
	fmt.Println(err)
	// Output:
	// building
	// <nil>
}

// A value that is too large is an error, and its own caller has it.
func ExampleMaxSize() {
	client, stop := newClient()
	defer stop()
	report, _, err := flight.Do(context.Background(), client, "report:2027-01", build, flight.MaxSize(10))
	fmt.Println(report.Pages, errors.Is(err, flight.ErrTooLarge))
	fmt.Println(err)
	// Output:
	// building
	// 12 true
	// flight: do "report:2027-01": the value is too large: 30 bytes, the most is 10
}

// Any pair of functions like these can be the codec.
func ExampleCodec() {
	client, stop := newClient()
	defer stop()
	_, _, err := flight.Do(context.Background(), client, "report:2027-01", build, flight.Codec(json.Marshal, json.Unmarshal))
	fmt.Println(err)
	// Output:
	// building
	// <nil>
}

// Get calls no function.
func ExampleGet() {
	client, stop := newClient()
	defer stop()
	report, ok, err := flight.Get[Report](context.Background(), client, "report:2027-01")
	fmt.Println(report.Pages, ok, err)
	// Output: 0 false <nil>
}

// A value that has changed is forgotten.
func ExampleForget() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	_, _, _ = flight.Do(ctx, client, "report:2027-01", build)
	report, ok, err := flight.Get[Report](ctx, client, "report:2027-01")
	fmt.Println(report.Pages, ok, err)
	fmt.Println(flight.Forget(ctx, client, "report:2027-01"))
	_, ok, err = flight.Get[Report](ctx, client, "report:2027-01")
	fmt.Println(ok, err)
	// Output:
	// building
	// 12 true <nil>
	// <nil>
	// false <nil>
}
