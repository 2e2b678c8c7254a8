package elect

import (
	"context"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// All that watch an election in one client share a watch: one subscription, one request
// at each message.
type watch struct {
	key    watchKey
	refs   int // guarded by watches.mu
	cancel context.CancelFunc
	ended  chan struct{}

	now chan struct{} // it has room for one: look now

	mu      sync.Mutex
	state   state
	asked   int // how often Redis was asked
	known   int // which of these requests was answered last; 0 for none
	members map[*member]struct{}
}

type watchKey struct {
	engine *engine.Engine
	record string
}

var watches = struct {
	mu sync.Mutex
	m  map[watchKey]*watch
}{m: map[watchKey]*watch{}}

// A member is told of what a watch sees.
type member struct {
	*watch
	after int           // the request after which it is told
	wake  chan struct{} // it has room for one
	named chan struct{} // likewise: a message was name
	name  string        // guarded by watch.mu
	wants func(*state) bool
}

// join returns a member, which is told of those states for which wants returns true; with
// fresh, only of those that Redis was asked for since. wants is called under a lock and
// must not block. The member has to leave.
func (s *scripts) join(fresh bool, wants func(*state) bool) *member {
	key := watchKey{s.engine, s.record}
	watches.mu.Lock()
	defer watches.mu.Unlock()
	w := watches.m[key]
	if w == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{key: key, cancel: cancel, ended: make(chan struct{}), now: make(chan struct{}, 1), members: map[*member]struct{}{}}
		watches.m[key] = w
		go w.run(ctx, s)
	}
	w.refs++
	m := &member{watch: w, wake: make(chan struct{}, 1), named: make(chan struct{}, 1), wants: wants}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[m] = struct{}{}
	if !fresh {
		m.tellLocked()
	} else if m.after = w.asked; m.after > 0 {
		signal(w.now)
	}
	return m
}

// leave ends the membership. The last one waits for the goroutine of the watch.
func (m *member) leave() {
	w := m.watch
	w.mu.Lock()
	delete(w.members, m)
	w.mu.Unlock()
	watches.mu.Lock()
	w.refs--
	last := w.refs == 0
	if last {
		delete(watches.m, w.key)
	}
	watches.mu.Unlock()
	if last {
		w.cancel()
		<-w.ended
	}
}

// look returns what was seen last: nothing if Redis has not answered yet.
func (m *member) look() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// tellLocked wakes m if it wants the present state.
func (m *member) tellLocked() {
	if m.known > m.after && m.wants(&m.state) {
		signal(m.wake)
	}
}

// signal puts a token into a channel with room for one.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

const (
	// slack is added to the rest of a lease before asking again.
	slack = 2 * time.Millisecond
	// afterFailure is how long a watch sleeps after Redis has not answered.
	afterFailure = time.Second
)

// expect makes hear signal m.named at a message that is name.
func (m *member) expect(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name = name
}

// hear takes a message on the Redis channel of the election. It returns false: after each
// message there is something to read.
func (w *watch) hear(message string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for m := range w.members {
		if m.name != "" && m.name == message {
			signal(m.named)
		}
	}
	return false
}

func (w *watch) run(ctx context.Context, s *scripts) {
	defer close(w.ended)
	s.engine.Watch(ctx, s.channel, w.now, w.hear, func(ctx context.Context) time.Duration {
		w.mu.Lock()
		w.asked++
		w.mu.Unlock()
		st, err := s.read(ctx, "observe")
		if err != nil {
			return afterFailure
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state, w.known = st, w.asked
		for m := range w.members {
			m.tellLocked()
		}
		if st.present {
			return st.left + slack
		}
		return 0
	})
}
