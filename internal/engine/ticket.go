package engine

import (
	"sync"
	"time"
)

// A Ticket makes a request that adds or takes something safe to repeat. The
// script remembers, in a key that expires, the number of the last executed
// request under the ticket, and so recognizes a repeated one.
//
// A client reuses its tickets, with one request at a time for each, so there
// are as many of those keys as it has had requests at once.
type Ticket struct {
	ID     string // names the key
	Number int64  // of the request; increases with each
}

// Remembered is how long a script remembers a request: longer than any client
// repeats or undoes it.
const Remembered = waiterPatience + 30*time.Second

// tickets are the unused tickets of a client.
type tickets struct {
	// mu guards the field below.
	mu   sync.Mutex
	free []*Ticket
}

// maxTickets is how many unused tickets are kept.
const maxTickets = 1024

// Ticket returns a ticket for one request. PutTicket takes it back when the
// request is settled: it was answered, and no copy of it is on its way.
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
