// Package examples shows the middleware of package idem with the routers that people
// have. Each function returns a service that makes payments, once for each key:
//
//	guard := idem.Middleware(client, idem.Required(), idem.Scope(userOf))
//	http.ListenAndServe(":8080", examples.Chi(guard, pay))
package examples

import (
	"context"
	"net/http"
)

// A Guard is what idem.Middleware returns.
type Guard = func(http.Handler) http.Handler

// Pay makes a payment.
type Pay = func(ctx context.Context, account string) (receipt string, err error)
