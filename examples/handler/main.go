// Handler serves payments that are charged once, however often the client sends
// the request.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

type payments struct {
	rdb    *redis.Client
	client *latchkey.Client
	charge func(ctx context.Context) (receipt string, err error)
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "Idempotency-Key is missing", http.StatusBadRequest)
		return
	}
	lock := rlock.New(p.client, "payment:"+key)
	err := latchkey.Do(r.Context(), lock, func(ctx context.Context) error {
		done := "payment-done:" + key
		receipt, err := p.rdb.Get(ctx, done).Result()
		if errors.Is(err, redis.Nil) {
			if receipt, err = p.charge(ctx); err == nil {
				err = p.rdb.Set(ctx, done, receipt, 24*time.Hour).Err()
			}
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(w, receipt)
		return err
	}, latchkey.Wait(0))

	switch {
	case errors.Is(err, latchkey.ErrNotAcquired):
		http.Error(w, "this payment is being made", http.StatusConflict)
	case err != nil:
		log.Print(err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
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

	charging, finish := make(chan bool), make(chan bool)
	server := httptest.NewServer(&payments{rdb, client, func(context.Context) (string, error) {
		charging <- true
		<-finish
		return "receipt 1", nil
	}})
	defer server.Close()
	post := func(what string) {
		req, err := http.NewRequest(http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "6f1c")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d %s\n", what, resp.StatusCode, body[:min(len(body), 26)])
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
