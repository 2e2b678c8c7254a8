package idem_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/idem"
)

// newClient returns a client on an in-memory server, so that the examples run
// everywhere. In a program its connection is redis.NewClient, NewFailoverClient or
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

// payments charges each customer whose request it gets.
var payments = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Println("charging")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "receipt 1")
})

// request returns a request for a payment. In a program it comes from the network.
func request(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// show serves a request, and prints the response.
func show(h http.Handler, r *http.Request) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, replayed := "refused", ""
	if w.Header().Get("Content-Type") != "application/problem+json" {
		body = w.Body.String()
	}
	if w.Header().Get("Idempotency-Replayed") != "" {
		replayed = " (replayed)"
	}
	fmt.Printf("%d %s%s\n", w.Code, body, replayed)
}

// A client sends a request twice, and the customer is charged once.
func ExampleMiddleware() {
	client, stop := newClient()
	defer stop()
	guard := idem.Middleware(client, idem.TTL(24*time.Hour))
	handler := guard(payments)
	show(handler, request("6f1c", "100 EUR"))
	show(handler, request("6f1c", "100 EUR"))
	show(handler, request("6f1c", "999 EUR"))
	// Output:
	// charging
	// 201 receipt 1
	// 201 receipt 1 (replayed)
	// 422 refused
}

// The same for a protocol that is not HTTP.
func ExampleNew() {
	client, stop := newClient()
	defer stop()
	keys := idem.New(client, idem.Name("billing"))
	for range 2 {
		reply, replayed, err := keys.Do(context.Background(), "ann", "6f1c", []byte("100 EUR"), func(context.Context) (reply []byte, keep bool) {
			fmt.Println("charging")
			return []byte("receipt 1"), true
		})
		fmt.Println(string(reply), replayed, err)
	}
	// Output:
	// charging
	// receipt 1 false <nil>
	// receipt 1 true <nil>
}

// Two services share a Redis, and a client may use one key for both.
func ExampleName() {
	client, stop := newClient()
	defer stop()
	show(idem.Middleware(client, idem.Name("payments"))(payments), request("6f1c", ""))
	show(idem.Middleware(client, idem.Name("refunds"))(payments), request("6f1c", ""))
	// Output:
	// charging
	// 201 receipt 1
	// charging
	// 201 receipt 1
}

// Clients repeat their requests for a week.
func ExampleTTL() {
	client, stop := newClient()
	defer stop()
	show(idem.Middleware(client, idem.TTL(7*24*time.Hour))(payments), request("6f1c", ""))
	// Output:
	// charging
	// 201 receipt 1
}

// Of two requests at a time, one waits for the response of the other.
func ExampleWait() {
	client, stop := newClient()
	defer stop()
	handler := idem.Middleware(client, idem.Wait(10*time.Second))(payments)
	both := make(chan int)
	for range 2 {
		go func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request("6f1c", ""))
			both <- w.Code
		}()
	}
	fmt.Println(<-both, <-both)
	// Output:
	// charging
	// 201 201
}

// A handler that takes a minute is given up.
func ExampleAtMost() {
	client, stop := newClient()
	defer stop()
	show(idem.Middleware(client, idem.AtMost(time.Minute))(payments), request("6f1c", ""))
	// Output:
	// charging
	// 201 receipt 1
}

// The user whom another middleware has found out.
type user struct{}

// Each user has keys of their own.
func ExampleScope() {
	client, stop := newClient()
	defer stop()
	handler := idem.Middleware(client, idem.Scope(func(r *http.Request) string {
		name, _ := r.Context().Value(user{}).(string)
		return name
	}))(payments)
	for _, name := range []string{"ann", "bob"} {
		r := request("6f1c", "")
		show(handler, r.WithContext(context.WithValue(r.Context(), user{}, name)))
	}
	// Output:
	// charging
	// 201 receipt 1
	// charging
	// 201 receipt 1
}

// Requests with PUT may have a key too.
func ExampleMethods() {
	client, stop := newClient()
	defer stop()
	handler := idem.Middleware(client, idem.Methods(http.MethodPost, http.MethodPatch, http.MethodPut))(payments)
	for range 2 {
		r := request("6f1c", "")
		r.Method = http.MethodPut
		show(handler, r)
	}
	// Output:
	// charging
	// 201 receipt 1
	// 201 receipt 1 (replayed)
}

// A payment must have a key.
func ExampleRequired() {
	client, stop := newClient()
	defer stop()
	show(idem.Middleware(client, idem.Required())(payments), request("", ""))
	// Output: 400 refused
}

// Bodies are short.
func ExampleMaxRequest() {
	client, stop := newClient()
	defer stop()
	show(idem.Middleware(client, idem.MaxRequest(5))(payments), request("6f1c", "100 EUR"))
	// Output: 413 refused
}

// A response above the bound is sent and not kept, and the request does not run again.
func ExampleMaxResponse() {
	client, stop := newClient()
	defer stop()
	handler := idem.Middleware(client, idem.MaxResponse(5))(payments)
	show(handler, request("6f1c", ""))
	show(handler, request("6f1c", ""))
	// Output:
	// charging
	// 201 receipt 1
	// 409 refused
}

// A response above the bound does not matter here: the request may run again.
func ExampleOversize() {
	client, stop := newClient()
	defer stop()
	handler := idem.Middleware(client, idem.MaxResponse(5), idem.Oversize(idem.Pass))(payments)
	show(handler, request("6f1c", ""))
	show(handler, request("6f1c", ""))
	// Output:
	// charging
	// 201 receipt 1
	// charging
	// 201 receipt 1
}

// It is better to charge twice than not at all.
func ExampleOutage() {
	client, stop := newClient()
	stop() // Redis has gone
	show(idem.Middleware(client)(payments), request("6f1c", ""))
	show(idem.Middleware(client, idem.Outage(idem.Pass))(payments), request("6f1c", ""))
	// Output:
	// 503 refused
	// charging
	// 201 receipt 1
}

// Only what has succeeded is kept.
func ExampleStatuses() {
	client, stop := newClient()
	defer stop()
	handler := idem.Middleware(client, idem.Statuses(func(status int) bool { return status < 300 }))(http.NotFoundHandler())
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request("6f1c", ""))
		fmt.Println(w.Code, w.Header().Get("Idempotency-Replayed") != "")
	}
	// Output:
	// 404 false
	// 404 false
}

// Of the header, only the content type is kept.
func ExampleHeaders() {
	client, stop := newClient()
	defer stop()
	show(idem.Middleware(client, idem.Headers(func(name string) bool { return name == "Content-Type" }))(payments), request("6f1c", ""))
	// Output:
	// charging
	// 201 receipt 1
}

// Refusals point to a page.
func ExampleDocs() {
	client, stop := newClient()
	defer stop()
	w := httptest.NewRecorder()
	idem.Middleware(client, idem.Required(), idem.Docs("https://example.com/keys"))(payments).ServeHTTP(w, request("", ""))
	fmt.Println(w.Body)
	// Output: {"type":"https://example.com/keys","title":"This request needs an Idempotency-Key","status":400,"code":"key-missing"}
}
