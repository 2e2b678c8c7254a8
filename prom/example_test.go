package prom_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/prom"
)

// Locks are called "order:42" and "report:nightly". The part before the colon
// is their class.
func Example() {
	metrics := prom.New(prom.Classes(func(_, name string) string {
		class, _, _ := strings.Cut(name, ":")
		switch class {
		case "order", "report":
			return class
		}
		return "other" // bounds the number of classes
	}))
	prometheus.MustRegister(metrics)

	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	client := latchkey.New(rdb, latchkey.WithObserver(metrics.Observer()))
	defer client.Close()
}

// Classes keep the number of time series small, whatever the number of names.
func ExampleClasses() {
	metrics := prom.New(prom.Classes(func(kind, _ string) string { return kind }))
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	metrics.Observer().Lost("rlock", "order:42", time.Second, latchkey.LossExpired)
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "latchkey_lost_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetLabel()[0].GetValue())
		}
	}
	// Output: latchkey_lost_total rlock
}

// The buckets are for waits of up to a second.
func ExampleWaitBuckets() {
	metrics := prom.New(prom.WaitBuckets(0.01, 0.1, 1))
	fmt.Println(prometheus.NewRegistry().Register(metrics))
	// Output: <nil>
}

// The buckets are for work that takes minutes.
func ExampleHoldBuckets() {
	metrics := prom.New(prom.HoldBuckets(60, 300, 900))
	fmt.Println(prometheus.NewRegistry().Register(metrics))
	// Output: <nil>
}
