package wait

// Give grants the thing to the head of the line for key, if it waits and does not
// ask, and if fits says so of its claim. fits must not block. Give is for what
// anybody may give who has it, and of which the claim need not know more than
// that it is granted.
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
