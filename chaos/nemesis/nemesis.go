// Package nemesis does what goes wrong with Redis, networks and processes, undoes it,
// and proves that it has happened.
package nemesis

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/chaos/clock"
	"github.com/latchkey-go/latchkey/chaos/stage"
)

// A Fault is something that goes wrong.
type Fault struct {
	Name string
	What string   // for people
	On   []string // topologies

	// Loss says that the servers may forget by it what they have acknowledged.
	Loss bool
	// Early says that leases may end by it before their time: what was granted
	// before may be granted again, and nothing else is forgotten.
	Early bool
	// Moves says that other servers may be the masters afterwards.
	Moves bool
	// Live says that some clients go on being served meanwhile.
	Live bool
	// Children says that it is done to clients in processes of their own, which it
	// stops or kills.
	Children bool
	// ClientClock says that it moves the clocks of such clients, ServerClock that of
	// the server: they must be started so that it can.
	ClientClock, ServerClock bool
	// Late says that requests are lost or late, those that give back too. Hole says that
	// all of some clients are, from the beginning to the end.
	Late, Hole bool
	// Again says that children are started anew, each with the id of the client of before.
	Again bool
	// Span is for how long it goes on.
	Span time.Duration

	// Do begins it, Undo ends it. Both may call Proved, with how often it has
	// been seen to happen; nothing proved means that it did not. Undo may be nil.
	Do, Undo func(*Play)
	// Settle, where set, undoes the rest, once nobody works any more. It proves nothing.
	Settle func(*Play)
}

// A Child is a process with clients in it.
type Child interface {
	Freeze()
	Thaw()
	Kill()
	Frozen() bool
	Dead() bool
	// Skew puts its wall clock off by d, and Skewed says whether it has seen that.
	Skew(d time.Duration) error
	Skewed(d time.Duration) bool
}

// A Play is one time that a fault is done.
type Play struct {
	*stage.Stage
	Rand     *rand.Rand
	Children []Child
	Names    []string // of the objects that are worked on

	f     Fault
	proof atomic.Int64
	base  int64
	moved time.Duration
	node  int
	stop  chan struct{}
	wg    sync.WaitGroup
}

// NewPlay returns a play of a fault that has not begun.
func NewPlay(f Fault, s *stage.Stage, r *rand.Rand, children []Child, names []string) *Play {
	return &Play{Stage: s, Rand: r, Children: children, Names: names, f: f, stop: make(chan struct{})}
}

// Begin does the fault.
func (p *Play) Begin() { p.f.Do(p) }

// End undoes it.
func (p *Play) End() {
	close(p.stop)
	p.wg.Wait()
	if p.f.Undo != nil {
		p.f.Undo(p)
	}
}

// Settle ends what goes on after End.
func (p *Play) Settle() {
	if p.f.Settle != nil {
		p.f.Settle(p)
	}
}

// Stepped returns by how much the server's clock was moved last, forward or, below 0,
// back.
func (p *Play) Stepped() time.Duration { return p.moved }

// Proof returns how often the fault has been seen to happen.
func (p *Play) Proof() int64 { return p.proof.Load() }

// Proved adds to the proof.
func (p *Play) Proved(n int64) { p.proof.Add(n) }

// seen is Proved(1) if it was.
func (p *Play) seen(yes bool) {
	if yes {
		p.Proved(1)
	}
}

// every runs f again and again until the fault ends.
func (p *Play) every(d time.Duration, f func()) {
	p.wg.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			f()
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
		}
	})
}

// For returns the faults that a topology can have on this machine, those with these names if any are
// given, always in the same order.
func For(topology string, names ...string) []Fault {
	var some []Fault
	for _, f := range All() {
		if f.ClientClock && !clock.Movable || f.ServerClock && !clock.ServersMovable() {
			continue
		}
		if slices.Contains(f.On, topology) && (len(names) == 0 || slices.Contains(names, f.Name)) {
			some = append(some, f)
		}
	}
	return some
}

// All returns all faults.
func All() []Fault {
	return slices.Concat(serverFaults(), refusalFaults(), networkFaults(), processFaults(), clockFaults(), topologyFaults())
}
