package otel_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/otel"
)

// Locks are called "order:42" and "report:nightly". The part before the colon
// is their class.
func Example() {
	observer, err := otel.New(otel.Classes(func(_, name string) string {
		class, _, _ := strings.Cut(name, ":")
		switch class {
		case "order", "report":
			return class
		}
		return "other" // bounds the number of classes
	}))
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	client := latchkey.New(rdb, latchkey.WithObserver(observer))
	defer client.Close()
}

// Metrics go to a provider of the program.
func ExampleWithMeterProvider() {
	reader := sdkmetric.NewManualReader() // in a program, an exporter
	observer, err := otel.New(otel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	if err != nil {
		log.Fatal(err)
	}
	observer.Lost("rlock", "order:42", time.Second, latchkey.LossExpired) // a client calls it
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		log.Fatal(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "latchkey.lost" {
			fmt.Println(m.Name)
		}
	}
	// Output: latchkey.lost
}

// Each acquire that had to wait is a span of the program's provider.
func ExampleWithTracerProvider() {
	spans := tracetest.NewInMemoryExporter() // in a program, another exporter
	observer, err := otel.New(otel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))
	if err != nil {
		log.Fatal(err)
	}
	observer.Acquired(context.Background(), latchkey.Acquisition{Kind: "rlock", Name: "order:42", Wait: time.Second, Contended: true})
	fmt.Println(len(spans.GetSpans()), "span")
	// Output: 1 span
}

// Classes keep the number of time series small, whatever the number of names.
func ExampleClasses() {
	observer, err := otel.New(otel.Classes(func(kind, _ string) string { return kind }))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(observer.Acquired != nil)
	// Output: true
}
