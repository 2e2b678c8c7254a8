package wait

// Give grants the thing to the head of the line for key, if the head is not
// asking and fits returns true for its claim. fits must not block. Give is for
// things that any owner may give away, and of which the claim needs to know
// only that it was granted.
func (ls *Lines) Give(key string, fits func(Claim) bool) bool {
	ls.mu.Lock()
	l := ls.lines[key]
	if l == nil || l.head.asks || l.head.reserved || !fits(l.head.claim) {
		ls.mu.Unlock()
		return false
	}
	p := l.head
	unused := ls.remove(p, turn{asleep: true})
	ls.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
	p.tell(turn{granted: true})
	return true
}

// Waits reports whether anybody stands in the line for key.
func (ls *Lines) Waits(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.lines[key] != nil
}
