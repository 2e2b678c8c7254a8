package idem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Duplicates of some requests reach two servers all at once. Each request has one
// effect, and all clients get its response.
func TestManyDuplicates(t *testing.T) {
	s := redistest.Start(t)
	const keys = 10
	many := redistest.Many(10000, 500)
	effects := make([]atomic.Int64, keys)
	var all sync.WaitGroup
	all.Add(many)
	together := func(next http.Handler) http.Handler { // all have come before one is served
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			all.Done()
			all.Wait()
			next.ServeHTTP(w, r)
		})
	}
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var key int
		if _, err := fmt.Sscanf(r.Header.Get("Idempotency-Key"), "key-%d", &key); err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "receipt %d of %d", effects[key].Add(1), key)
	})
	var servers []*httptest.Server
	for range 2 {
		c := locktest.NewClient(t, s.Client(t), latchkey.WithAnswerTimeout(30*time.Second)) // on a slow machine
		server := httptest.NewUnstartedServer(together(idem.Middleware(c, idem.Wait(10*time.Minute))(pay)))
		server.Config.Protocols = &http.Protocols{}
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: many}
		server.Start()
		t.Cleanup(server.Close)
		servers = append(servers, server)
	}
	transport := &http.Transport{Protocols: servers[0].Config.Protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	first := atomic.Int64{}
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			key := i % keys
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, servers[i/keys%2].URL, strings.NewReader("x"))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Idempotency-Key", fmt.Sprint("key-", key))
			r, err := get(client, req)
			if err != nil {
				t.Error(err)
				all.Done() // the others need not wait
				return
			}
			if want := fmt.Sprintf("receipt 1 of %d", key); r.body != want || r.status != http.StatusOK {
				t.Errorf("%d: %d %q, want %q", i, r.status, r.body, want)
			}
			if !r.replayed {
				first.Add(1)
			}
		})
	}
	clients.Wait()
	require.EqualValues(t, keys, first.Load())
	for i := range effects {
		require.EqualValues(t, 1, effects[i].Load())
	}
}
