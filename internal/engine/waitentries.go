package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
)

// A waitlist tracks the entries of this client that may be in the waitlists in
// Redis. An entry is tracked from before the request that adds it is sent until
// it is proved to be gone: Redis has replied that it removed the entry, to a
// request that was sent when no request that could add it was under way. The
// order of replies makes no difference.
type waitlist struct {
	n atomic.Int32 // number of locks with entries

	// mu guards the fields below.
	mu    sync.Mutex
	m     map[string][]*waitEntry // by main key
	clock uint64                  // increases with each request and each reply
	room  int                     // number of locks at which useless entries are removed
}

// A waitEntry is one entry. It belongs to one attempt to acquire.
type waitEntry struct {
	entry  string
	holder string    // the holder's field
	asks   int       // requests under way that may add it
	stands bool      // an earlier request may have added it
	last   uint64    // when the last of them was answered, by the clock of waitlist
	until  time.Time // until when a request without a reply may add it
	dead   time.Time // when Redis has dropped it, or ignores it
}

// over reports whether x no longer matters.
func (x *waitEntry) over(now time.Time) bool { return x.asks == 0 && now.After(x.dead) }

// A waitlistChange is the effect of a request on a waitlist.
type waitlistChange struct {
	key   string   // empty for no effect
	puts  string   // the entry that is added; empty for none
	takes []string // the other entries, which are removed
	again bool     // the entry that is added may be there already
	at    uint64
	began time.Time
}

const (
	// mostTaken is how many entries one request removes.
	mostTaken = 32
	// listedRoom is the least number of locks before useless entries are
	// removed.
	listedRoom = 64
)

// empty reports whether no entry is tracked.
func (l *waitlist) empty() bool { return l.n.Load() == 0 }

// begin begins a waitlistChange that adds the entry puts of a holder, or none.
// It removes all known entries, or, if of is not empty, the known entries of
// that holder.
func (l *waitlist) begin(key, holder, puts, of string) waitlistChange {
	if puts == "" && l.empty() {
		return waitlistChange{}
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	r := waitlistChange{key: key, puts: puts, at: l.clock, began: now}
	l.setLocked(key, slices.DeleteFunc(l.m[key], func(x *waitEntry) bool { return x.over(now) }))
	for _, x := range l.m[key] {
		switch {
		case x.entry == puts:
			x.asks++
			r.again = true
		case len(r.takes) < mostTaken && (of == "" || x.holder == of):
			r.takes = append(r.takes, x.entry)
		}
	}
	switch {
	case puts != "" && !r.again:
		if l.m == nil {
			l.m = make(map[string][]*waitEntry)
		}
		l.tidyLocked(now)
		l.m[key] = append(l.m[key], &waitEntry{entry: puts, holder: holder, asks: 1})
		l.n.Store(int32(len(l.m)))
	case puts == "" && r.takes == nil:
		r.key = ""
	}
	return r
}

// An outcome is the result of a waitlistChange.
type outcome int

const (
	listSame    outcome = iota // the waitlist is unchanged
	listCleared                // all entries of the change are gone
	listEntered                // the new entry is there, the others are gone
	listUnknown                // either, now or until a time
)

// end ends a waitlistChange. until is for an unknown outcome.
func (l *waitlist) end(r *waitlistChange, o outcome, until time.Time) {
	if r.key == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	now := time.Now()
	left := l.m[r.key][:0]
	for _, x := range l.m[r.key] {
		own := r.puts != "" && x.entry == r.puts
		// No request was under way at the beginning that could add it again,
		// except the waitlistChange itself, and none has been since.
		still := x.last < r.at && !x.until.After(r.began)
		if own {
			x.asks--
		}
		taken := o == listCleared && own || (o == listCleared || o == listEntered) && slices.Contains(r.takes, x.entry)
		out := taken && still && x.asks == 0
		if own {
			x.last = l.clock
			x.stands = x.stands || o == listEntered || o == listUnknown
			if o == listUnknown && until.After(x.until) {
				x.until = until
			}
			x.dead = now
			if x.until.After(now) {
				x.dead = x.until
			}
			x.dead = x.dead.Add(listKept + run.ClockSlack)
			out = out || !x.stands && x.asks == 0
		}
		if !out {
			left = append(left, x)
		}
	}
	clear(l.m[r.key][len(left):])
	l.setLocked(r.key, left)
	r.key = ""
}

// popped notes that Redis reports the removal of the entry with that nonce.
func (l *waitlist) popped(key, nonce string) {
	if l.empty() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(key, slices.DeleteFunc(l.m[key], func(x *waitEntry) bool {
		return x.asks == 0 && !x.until.After(time.Now()) && nonceOf(x.entry) == nonce
	}))
}

// has reports whether an entry of a holder may be in the waitlist.
func (l *waitlist) has(key, holder string) bool {
	if l.empty() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.m[key], func(x *waitEntry) bool { return x.holder == holder })
}

func (l *waitlist) setLocked(key string, all []*waitEntry) {
	if len(all) == 0 {
		delete(l.m, key)
	} else {
		l.m[key] = all
	}
	l.n.Store(int32(len(l.m)))
}

// tidyLocked removes entries that no longer matter, if there are many.
func (l *waitlist) tidyLocked(now time.Time) {
	if len(l.m) < max(l.room, listedRoom) {
		return
	}
	for key, all := range l.m {
		l.setLocked(key, slices.DeleteFunc(all, func(x *waitEntry) bool { return x.over(now) }))
	}
	l.room = 2 * len(l.m)
}

// nonceOf returns the nonce in an entry.
func nonceOf(entry string) string {
	entry = strings.TrimSuffix(entry, " f")
	return entry[strings.LastIndexByte(entry, ' ')+1:]
}
