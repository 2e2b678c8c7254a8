package elect

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"
)

// A Term is the time for which one candidate leads.
type Term struct {
	// Number is greater than that of every term before. It is a fencing token; see
	// [latchkey.Hold.Token].
	Number int64
	// Since is when the term began, by the server's clock, to the millisecond.
	Since time.Time
}

// A Leader is what everybody can read of the candidate that leads. The zero Leader is
// nobody.
type Leader struct {
	Identity string
	Term     Term
	Value    string
	Host     string // of its process
	PID      int
}

// ErrNoLeader is the error of Leader while nobody leads.
var ErrNoLeader = errors.New("nobody leads")

// Leader asks Redis who leads. While nobody does, the error is ErrNoLeader. A leader
// whose process has died leads until its lease has ended.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	st, err := e.scripts.read(ctx, "leader")
	switch {
	case err != nil:
		return Leader{}, err
	case !st.present:
		return Leader{}, e.wrap("leader", ErrNoLeader)
	}
	return st.leader, nil
}

// mostSeen is how many changes an Observe keeps for a loop that does not take them.
const mostSeen = 1000

// Observe yields who leads, as soon as Redis has said so, and then each change, until ctx
// is done or the client is closed. The zero Leader says that nobody leads. Terms come in
// their order, without those that were over before this client looked. If a message is
// lost, a change is seen at the recheck, up to 5 s later ([latchkey.WithRecheck]); if
// Redis does not answer, when it does again.
//
// Changes that the body of the loop makes are seen, too. Up to 1,000 changes wait for a
// slow body; if there are more, the oldest are dropped.
func (e *Election) Observe(ctx context.Context) iter.Seq[Leader] {
	return func(yield func(Leader) bool) {
		var mu sync.Mutex
		var queue []Leader
		var last Leader
		first := true
		m := e.scripts.join(true, func(st *state) bool {
			mu.Lock()
			defer mu.Unlock()
			l := st.seen()
			if l == last && !first {
				return false
			}
			if first, last = false, l; len(queue) == mostSeen {
				queue = queue[1:]
			}
			queue = append(queue, l)
			return true
		})
		defer m.leave()
		for {
			select {
			case <-m.wake:
			case <-ctx.Done():
				return
			case <-m.ended:
				return
			}
			mu.Lock()
			changes := queue
			queue = nil
			mu.Unlock()
			for _, l := range changes {
				if ctx.Err() != nil || !yield(l) {
					return
				}
			}
		}
	}
}
