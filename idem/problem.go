package idem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// A problem is the body of a refusal, as in RFC 9457.
type problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"` // for programs

	retry time.Duration // for Retry-After; 0 for none
}

// retryAfter is when a refused request may be sent again.
const retryAfter = time.Second

var (
	missing = problem{
		Status: http.StatusBadRequest, Code: "key-missing",
		Title: "This request needs an Idempotency-Key",
	}
	invalid = problem{
		Status: http.StatusBadRequest, Code: "key-invalid",
		Title: "The Idempotency-Key is not valid",
	}
	unreadable = problem{
		Status: http.StatusBadRequest, Code: "body-unreadable",
		Title: "The body of the request could not be read",
	}
	tooLarge = problem{
		Status: http.StatusRequestEntityTooLarge, Code: "body-too-large",
		Title: "The body of a request with an Idempotency-Key is too large",
	}
	underWay = problem{
		Status: http.StatusConflict, Code: "under-way", retry: retryAfter,
		Title: "A request with this Idempotency-Key is under way",
	}
	reused = problem{
		Status: http.StatusUnprocessableEntity, Code: "key-reused",
		Title:  "This Idempotency-Key belongs to another request",
		Detail: "Its method, path or body was different. A new request needs a new key.",
	}
	notKept = problem{
		Status: http.StatusConflict, Code: "response-too-large",
		Title: "This request was carried out, and its response was too large to be kept",
	}
	unavailable = problem{
		Status: http.StatusServiceUnavailable, Code: "unavailable", retry: retryAfter,
		Title: "The request was not carried out, because its Idempotency-Key could not be looked up",
	}
	unknown = problem{
		Status: http.StatusServiceUnavailable, Code: "unavailable",
		Title: "This request was carried out, and its response cannot be read",
	}
)

// refuse sends a problem.
func (m *middleware) refuse(w http.ResponseWriter, p problem, detail string) {
	p.Type = m.cfg.docs
	if detail != "" {
		p.Detail = detail
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // it consists of texts and a number
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.retry.Seconds())))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
