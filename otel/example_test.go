package otel_test

import (
	"log"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/otel"
)

// Locks are called "order:42" and "report:nightly": what is before the colon is
// their class.
func Example() {
	observer, err := otel.New(otel.Classes(func(_, name string) string {
		class, _, _ := strings.Cut(name, ":")
		switch class {
		case "order", "report":
			return class
		}
		return "other" // whatever else somebody comes to lock
	}))
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	client := latchkey.New(rdb, latchkey.WithObserver(observer))
	defer client.Close()
}
