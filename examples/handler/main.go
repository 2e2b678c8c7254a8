// Handler serves payments that are charged once, however often the client sends
// the request.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/idem"
)

type payments struct {
	charge func(ctx context.Context) (receipt string, err error)
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	receipt, err := p.charge(r.Context())
	if err != nil {
		log.Print(err)
		http.Error(w, "try again", http.StatusServiceUnavailable) // not kept
		return
	}
	fmt.Fprint(w, receipt)
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
	defer client.Close()

	guard := idem.Middleware(client,
		idem.Required(),
		idem.TTL(24*time.Hour),
		idem.Scope(func(*http.Request) string { return "ann" })) // in a service, the user who was authenticated

	charging, finish := make(chan bool), make(chan bool)
	server := httptest.NewServer(guard(&payments{func(context.Context) (string, error) {
		charging <- true
		<-finish
		return "receipt 1", nil
	}}))
	defer server.Close()
	key := rand.Text() // the client makes one for each payment
	post := func(what string) {
		req, err := http.NewRequest(http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			body = []byte(http.StatusText(resp.StatusCode))
		}
		fmt.Printf("%s: %d %s\n", what, resp.StatusCode, body)
	}

	first := make(chan bool)
	go func() {
		post("first request")
		close(first)
	}()
	<-charging
	post("the same, meanwhile")
	finish <- true
	<-first
	post("the same, later")
}
