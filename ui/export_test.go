package ui

// Passes returns how many passes over Redis have begun.
func (h *Handler) Passes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passes
}
