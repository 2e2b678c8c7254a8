package ui

import "time"

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
