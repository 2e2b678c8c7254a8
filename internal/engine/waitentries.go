package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
)

// A waitlist has the entries of this client that may stand in the waitlists in Redis. An
// entry is known from before the request that puts it in is sent until
// it is proved gone: Redis has said that it took it out, by a request that was sent when
// nothing was under way that could put it in. In which order answers come makes no
// difference to that.
type waitlist struct {
	n atomic.Int32 // how many locks have any

	// mu guards the fields below.
	mu    sync.Mutex
	m     map[string][]*waitEntry // by main key
	clock uint64                  // grows with each request and each answer
	room  int                     // how many locks there may be before those are looked for of which nothing stands any more
}

// A waitEntry is one entry. It belongs to one attempt to acquire.
type waitEntry struct {
	entry  string
	holder string    // the field
	asks   int       // requests under way that may put it in
	stands bool      // one of before may have
	last   uint64    // when the last of them was answered, by the clock of waitlist
	until  time.Time // when the last one without an answer can be carried out no more
	dead   time.Time // when Redis has forgotten it, or takes no notice of it
}

// over reports whether nothing of x can matter any more.
func (x *waitEntry) over(now time.Time) bool { return x.asks == 0 && now.After(x.dead) }

// A waitlistChange is what a request does to a list.
type waitlistChange struct {
	key   string   // empty for nothing
	puts  string   // the entry that comes in; empty for none
	takes []string // but for that one
	again bool     // that one may be there already
	at    uint64
	began time.Time
}

const (
	// mostTaken is how many entries one request takes out.
	mostTaken = 32
	// listedRoom is how many locks are remembered at least before those are looked for
	// of which nothing stands any more.
	listedRoom = 64
)

// begin begins a waitlistChange of a holder that puts in an entry, or none. It takes out what
// is known, or, if of is not empty, what is known of that holder.
func (l *waitlist) begin(key, holder, puts, of string) waitlistChange {
	if puts == "" && l.n.Load() == 0 {
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

// An outcome is what has become of an waitlistChange.
type outcome int

const (
	listSame    outcome = iota // the list is as it was
	listCleared                // all entries that it had to do with are out
	listEntered                // the new one is in, the others are out
	listUnknown                // either, now or until a time
)

// end ends an waitlistChange. until is for what is unknown.
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
		// Nothing was under way at the beginning that could put it in again, but for the
		// waitlistChange itself; nor has been since.
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

// popped notes that Redis has taken out the entry with that nonce, and says so.
func (l *waitlist) popped(key, nonce string) {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(key, slices.DeleteFunc(l.m[key], func(x *waitEntry) bool {
		return x.asks == 0 && !x.until.After(time.Now()) && nonceOf(x.entry) == nonce
	}))
}

// has reports whether an entry of a holder may stand in the list.
func (l *waitlist) has(key, holder string) bool {
	if l.n.Load() == 0 {
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

// tidyLocked forgets what stands nowhere any more, once there is much.
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
