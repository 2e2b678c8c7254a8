package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Each service makes a payment once, and repeats one that has failed.
func TestServices(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for name, service := range map[string]func(Guard, Pay) http.Handler{"net/http": NetHTTP, "chi": Chi, "gin": Gin, "echo": Echo} {
		t.Run(name, func(t *testing.T) {
			made, failing := 0, false
			pay := func(ctx context.Context, account string) (string, error) {
				if failing {
					return "", errors.New("the bank is closed")
				}
				made++
				return fmt.Sprintf("receipt %d of %s", made, account), ctx.Err()
			}
			guard := idem.Middleware(locktest.NewClient(t, rdb), idem.Name(name), idem.Required())
			server := httptest.NewServer(service(guard, pay))
			defer server.Close()
			post := func(key, account string) (status int, body string, replayed bool) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/accounts/"+account+"/payments", strings.NewReader("100 EUR"))
				require.NoError(t, err)
				if key != "" {
					req.Header.Set("Idempotency-Key", key)
				}
				resp, err := server.Client().Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				return resp.StatusCode, string(b), resp.Header.Get("Idempotency-Replayed") == "true"
			}
			for i := range 3 {
				status, body, replayed := post("k", "ann")
				require.Equal(t, http.StatusCreated, status)
				require.Equal(t, "receipt 1 of ann", body)
				require.Equal(t, i > 0, replayed)
			}
			status, _, _ := post("k", "bob")
			require.Equal(t, http.StatusUnprocessableEntity, status)
			status, _, _ = post("", "ann")
			require.Equal(t, http.StatusBadRequest, status)
			require.Equal(t, 1, made)

			failing = true
			status, body, _ := post("again", "ann")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, body, "try again")
			failing = false
			status, body, replayed := post("again", "ann")
			require.Equal(t, http.StatusCreated, status)
			require.Equal(t, "receipt 2 of ann", body)
			require.False(t, replayed)
		})
	}
}
