package examples

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Chi is a service with chi.
func Chi(guard Guard, pay Pay) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, guard)
	r.Post("/accounts/{account}/payments", func(w http.ResponseWriter, r *http.Request) {
		receipt, err := pay(r.Context(), chi.URLParam(r, "account"))
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable) // not kept
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, receipt)
	})
	return r
}
