package engine

import (
	"sync"
	"time"
)

// A Ticket makes a request that adds or takes harmless to repeat. The script
// remembers, in a key of ours that expires, the number of the last request that
// was carried out under the ticket; so it knows one that comes again.
//
// A client uses its tickets over and over, one request at a time each, so that
// it has as many of those keys as it has had requests at once.
type Ticket struct {
	ID     string // names the key
	Number int64  // of the request, growing with each
}

// Remembered is for how long a script remembers a request: longer than anybody
// may ask again, or undo it.
const Remembered = waiterPatience + 30*time.Second

// tickets are those of a client that are not in use.
type tickets struct {
	// mu guards the field below.
	mu   sync.Mutex
	free []*Ticket
}

// maxTickets is how many are kept for the next time.
const maxTickets = 1024

// Ticket returns a ticket for one request. PutTicket takes it back when the
// request is settled: it was answered, and none of its kind is on its way.
func (e *Engine) Ticket() *Ticket {
	ts := &e.tickets
	ts.mu.Lock()
	n := len(ts.free)
	if n == 0 {
		ts.mu.Unlock()
		return &Ticket{ID: e.HolderID(NewHolder()), Number: 1}
	}
	t := ts.free[n-1]
	ts.free = ts.free[:n-1]
	ts.mu.Unlock()
	t.Number++
	return t
}

// PutTicket takes back a ticket whose request is settled.
func (e *Engine) PutTicket(t *Ticket) {
	ts := &e.tickets
	ts.mu.Lock()
	if len(ts.free) < maxTickets {
		ts.free = append(ts.free, t)
	}
	ts.mu.Unlock()
}
