package prom_test

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/prom"
)

// Locks are called "order:42" and "report:nightly": what is before the colon is
// their class.
func Example() {
	metrics := prom.New(prom.Classes(func(_, name string) string {
		class, _, _ := strings.Cut(name, ":")
		switch class {
		case "order", "report":
			return class
		}
		return "other" // whatever else somebody comes to lock
	}))
	prometheus.MustRegister(metrics)

	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	client := latchkey.New(rdb, latchkey.WithObserver(metrics.Observer()))
	defer client.Close()
}
