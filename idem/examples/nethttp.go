package examples

import (
	"fmt"
	"net/http"
)

// NetHTTP is a service with the standard library's router.
func NetHTTP(guard Guard, pay Pay) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{account}/payments", guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		receipt, err := pay(r.Context(), r.PathValue("account"))
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable) // not kept
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, receipt)
	})))
	return mux
}
