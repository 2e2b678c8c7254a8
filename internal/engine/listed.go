package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
)

// listed are the entries of this client that may stand in the lists of those who are
// given a lock. An entry is known from before the request that puts it in is sent until
// it is proved gone: Redis has said that it took it out, by a request that was sent when
// nothing was under way that could put it in. In which order answers come makes no
// difference to that.
type listed struct {
	n atomic.Int32 // how many locks have any

	// mu guards the fields below.
	mu    sync.Mutex
	m     map[string][]*listing // by main key
	clock uint64                // grows with each request and each answer
	room  int                   // how many locks there may be before those are looked for of which nothing stands any more
}

// A listing is one entry. It belongs to one attempt to acquire.
type listing struct {
	entry  string
	holder string    // the field
	asks   int       // requests under way that may put it in
	stands bool      // one of before may have
	last   uint64    // when the last of them was answered, by the clock of listed
	until  time.Time // when the last one without an answer can be carried out no more
	dead   time.Time // when Redis has forgotten it, or takes no notice of it
}

// over reports whether nothing of x can matter any more.
func (x *listing) over(now time.Time) bool { return x.asks == 0 && now.After(x.dead) }

// An errand is what a request does to a list.
type errand struct {
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

// begin begins an errand of a holder that puts in an entry, or none. It takes out what
// is known, or, if of is not empty, what is known of that holder.
func (l *listed) begin(key, holder, puts, of string) errand {
	if puts == "" && l.n.Load() == 0 {
		return errand{}
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	r := errand{key: key, puts: puts, at: l.clock, began: now}
	l.setLocked(key, slices.DeleteFunc(l.m[key], func(x *listing) bool { return x.over(now) }))
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
			l.m = make(map[string][]*listing)
		}
		l.tidyLocked(now)
		l.m[key] = append(l.m[key], &listing{entry: puts, holder: holder, asks: 1})
		l.n.Store(int32(len(l.m)))
	case puts == "" && r.takes == nil:
		r.key = ""
	}
	return r
}

// An outcome is what has become of an errand.
type outcome int

const (
	listSame    outcome = iota // the list is as it was
	listCleared                // all entries that it had to do with are out
	listEntered                // the new one is in, the others are out
	listUnknown                // either, now or until a time
)

// end ends an errand. until is for what is unknown.
func (l *listed) end(r *errand, o outcome, until time.Time) {
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
		// errand itself; nor has been since.
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

// popped notes that Redis has taken out the entry with that word, and says so.
func (l *listed) popped(key, word string) {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(key, slices.DeleteFunc(l.m[key], func(x *listing) bool {
		return x.asks == 0 && !x.until.After(time.Now()) && wordOf(x.entry) == word
	}))
}

// has reports whether an entry of a holder may stand in the list.
func (l *listed) has(key, holder string) bool {
	if l.n.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.m[key], func(x *listing) bool { return x.holder == holder })
}

func (l *listed) setLocked(key string, all []*listing) {
	if len(all) == 0 {
		delete(l.m, key)
	} else {
		l.m[key] = all
	}
	l.n.Store(int32(len(l.m)))
}

// tidyLocked forgets what stands nowhere any more, once there is much.
func (l *listed) tidyLocked(now time.Time) {
	if len(l.m) < max(l.room, listedRoom) {
		return
	}
	for key, all := range l.m {
		l.setLocked(key, slices.DeleteFunc(all, func(x *listing) bool { return x.over(now) }))
	}
	l.room = 2 * len(l.m)
}

// wordOf returns the word in an entry.
func wordOf(entry string) string {
	entry = strings.TrimSuffix(entry, " f")
	return entry[strings.LastIndexByte(entry, ' ')+1:]
}
