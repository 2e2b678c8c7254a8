package ui

import (
	"context"
	"time"
)

// Passes returns how many passes over Redis have begun.
func (h *Handler) Passes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passes
}

// Hurry makes a pass due.
func (h *Handler) Hurry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextPass = time.Time{}
}

// Render renders a page whose data that function returns.
func (h *Handler) Render(data func() (any, error)) ([]byte, error) {
	v := &view{name: "leaders", data: func(*Handler, context.Context, *query) (any, error) { return data() }}
	return h.render(context.Background(), v, &query{lang: "en"})
}
