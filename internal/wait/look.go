package wait

import (
	"maps"
	"slices"
)

// Claims returns the claims of all waiters, and of callers about to ask. Those
// for one thing are in the order in which they are served.
func (ls *Lines) Claims() []Claim {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var claims []Claim
	for _, key := range slices.Sorted(maps.Keys(ls.lines)) {
		for p := ls.lines[key].head; p != nil; p = p.next {
			claims = append(claims, p.claim)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ls.groups)) {
		for fw := ls.groups[key].first; fw != nil; fw = fw.next {
			claims = append(claims, fw.claim)
		}
	}
	return claims
}
