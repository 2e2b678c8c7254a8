package engine

import (
	"context"
	"sync"
	"time"
)

// holdings are the holdings of this client, by holder and key.
type holdings struct {
	// mu guards the field below and refs of every holding.
	mu sync.Mutex
	m  map[holdingKey]*holding
}

type holdingKey struct {
	holder uint64
	key    string // the main key
	suffix string // suffix of the field of the hash: the half of a pair
}

func (es *holdings) init() { es.m = make(map[holdingKey]*holding) }

// enter returns the holding of a holder for s and counts the caller in. fresh
// says that the holder was made for this acquisition.
func (e *Engine) enter(n uint64, s *Spec, fresh bool) *holding {
	k := holdingKey{n, s.Key, s.Suffix}
	e.holdings.mu.Lock()
	defer e.holdings.mu.Unlock()
	hd := e.holdings.m[k]
	if hd == nil {
		hd = &holding{engine: e, key: k, field: e.HolderID(n) + s.Suffix, fresh: fresh, ops: make(chan struct{}, 1)}
		e.holdings.m[k] = hd
	}
	hd.refs++
	return hd
}

// join returns the holding for s of the holder in ctx, or of a fresh one, and
// counts the caller in.
func (e *Engine) join(ctx context.Context, s *Spec) (hd *holding, fresh bool) {
	for {
		n, ok := e.holderIn(ctx, s)
		if !ok {
			return e.enter(NewHolder(), s, true), true
		}
		hd := e.enter(n, s, false)
		// The hold of ctx may have been released just now. From here on, a
		// release sees that a caller is here.
		if now, ok := e.holderIn(ctx, s); ok && now == n {
			return hd, false
		}
		hd.leave()
	}
}

// alone reports whether the caller is the only user of hd.
func (hd *holding) alone() bool {
	es := &hd.engine.holdings
	es.mu.Lock()
	defer es.mu.Unlock()
	return hd.refs == 1
}

// find returns the holding of a holder for s and counts the caller in, or
// returns nil if there is none.
func (e *Engine) find(n uint64, s *Spec) *holding {
	e.holdings.mu.Lock()
	defer e.holdings.mu.Unlock()
	hd := e.holdings.m[holdingKey{n, s.Key, s.Suffix}]
	if hd != nil {
		hd.refs++
	}
	return hd
}

// findIn returns the holder that ctx names for s and its holding for s, counted
// in. The holding is nil if there is none.
func (e *Engine) findIn(ctx context.Context, s *Spec) (hd *holding, n uint64, ok bool) {
	for {
		n, ok := e.holderIn(ctx, s)
		if !ok {
			return nil, 0, false
		}
		hd := e.find(n, s)
		// As in join: a waiter may have taken the holding over since.
		if now, ok := e.holderIn(ctx, s); ok && now == n {
			return hd, n, true
		}
		if hd != nil {
			hd.leave()
		}
	}
}

// otherCount returns the hold count of a holder on the other half of s.
func (e *Engine) otherCount(n uint64, s *Spec) int {
	if !s.Half {
		return 0
	}
	e.holdings.mu.Lock()
	hd := e.holdings.m[holdingKey{n, s.Key, s.Other}]
	e.holdings.mu.Unlock()
	if hd == nil {
		return 0
	}
	return hd.counted()
}

// leave counts a user of hd out. The last one removes hd from the map.
func (hd *holding) leave() {
	es := &hd.engine.holdings
	es.mu.Lock()
	defer es.mu.Unlock()
	hd.refs--
	if hd.refs == 0 {
		delete(es.m, hd.key)
	}
}

// rejoin counts the caller in, even if hd has left the map. It returns false if
// another holding is in its place, because the holder has moved on.
func (hd *holding) rejoin() bool {
	es := &hd.engine.holdings
	es.mu.Lock()
	defer es.mu.Unlock()
	switch es.m[hd.key] {
	case hd:
	case nil:
		es.m[hd.key] = hd
	default:
		return false
	}
	hd.refs++
	return true
}

// stay counts one more user in. The caller must be one already.
func (hd *holding) stay() {
	es := &hd.engine.holdings
	es.mu.Lock()
	hd.refs++
	es.mu.Unlock()
}

// stayFor keeps hd for the next user for d. The caller is counted in.
func (hd *holding) stayFor(d time.Duration) {
	hd.stay()
	time.AfterFunc(d, hd.leave)
}

// all returns all holdings, counted in.
func (es *holdings) all() []*holding {
	es.mu.Lock()
	defer es.mu.Unlock()
	out := make([]*holding, 0, len(es.m))
	for _, hd := range es.m {
		hd.refs++
		out = append(out, hd)
	}
	return out
}

// held returns the number of holds.
func (es *holdings) held() int {
	es.mu.Lock()
	all := make([]*holding, 0, len(es.m))
	for _, hd := range es.m {
		all = append(all, hd)
	}
	es.mu.Unlock() // the owner of a holding's mu may want es.mu
	n := 0
	for _, hd := range all {
		hd.mu.Lock()
		n += len(hd.holds)
		hd.mu.Unlock()
	}
	return n
}
