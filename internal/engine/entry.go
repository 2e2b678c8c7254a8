package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// entries are what the holders of this client have, by holder and key.
type entries struct {
	// mu guards the field below and refs of every entry.
	mu sync.Mutex
	m  map[entryKey]*entry
}

type entryKey struct {
	holder uint64
	key    string // the main key
	suffix string // of the field of the hash: the half of a pair
}

func (es *entries) init() { es.m = make(map[entryKey]*entry) }

// An entry is one holder's part in one lock: how often it holds it, and until
// when. There is one for each field of a hash in Redis that is ours.
type entry struct {
	engine *Engine
	key    entryKey
	field  string // the field in the hash: "<client id>:<number>" and the suffix
	refs   int    // calls that use the entry, and 1 while it holds

	// ops is with whoever changes the hold count: who sends a script that does
	// takes it.
	ops ops
	// Guarded by ops: the holder will never hold the lock again once it has let go.
	fresh bool
	// Guarded by ops: the lock came from another holder of this process.
	handed bool
	// Guarded by ops: until when a request to give back that got no answer may
	// still act. No acquire is sent before that, lest it meet the leftovers.
	releaseInDoubtUntil time.Time
	// Written with ops and mu: the last label that was given with one of the holds, which
	// have one in common. What renews them has to know, and the last release.
	label string
	// Written with ops: a request with a label may have been carried out since the lock was
	// free, so that its last release removes the label: that of none of its holds, maybe.
	tagged atomic.Bool
	// Guarded by ops: until when the lock stays closed, whatever happens.
	atLeast time.Time
	// Guarded by ops: until when the lock may be handed on in this process, and
	// what was left of the window of what was given up last.
	slice time.Time
	left  watchdog.Window
	// Guarded by ops: the last fencing token, and how many behind it are there to be
	// handed on.
	token, more int64
	// Guarded by ops: who wants to know of a loss, and hears of it when ops are free.
	untold []func()

	// mu guards the fields below.
	mu    sync.Mutex
	count int            // hold count in Redis, so far as we know
	holds []*Hold        // that make up the count, oldest first
	taken chan struct{}  // closed when count becomes positive; made on demand
	item  *watchdog.Item // watched while count is positive
	// waits is when the last request was sent that found the holder waiting, and
	// waitsAt when it was answered, in server ms.
	waits   watchdog.Instant
	waitsAt int64
	// extends is how many calls of Extend are under way; extended, until when a request of
	// one that has ended without an answer may be carried out.
	extends  int
	extended time.Time
	ends     int64    // server ms: when the lease ends that it was given last, and had to ask for
	claims   int      // attempts in its name that have not come to their end
	heard    bool     // that it was given something, which it has not taken
	ownEntry ownEntry // the entry for a list; see give.go
	// chain is set while another field than ours stands in Redis for what we have.
	chain *chain
	// unknown is the last hold, when it was given back and Redis did not answer.
	unknown *Hold
	// acquireInDoubtUntil is until when a request without an answer may be carried out.
	acquireInDoubtUntil time.Time
	// For the first item and the first hold: most entries have no other.
	room struct {
		item  watchdog.Item
		hold  Hold
		holds [1]*Hold
	}
}

// holder returns "<client id>:<number>".
func (ent *entry) holder() string { return strings.TrimSuffix(ent.field, ent.key.suffix) }

// enter returns the entry of a holder for s, and counts the caller in. fresh says
// that the holder was made for this acquisition.
func (e *Engine) enter(n uint64, s *Spec, fresh bool) *entry {
	k := entryKey{n, s.Key, s.Suffix}
	e.entries.mu.Lock()
	defer e.entries.mu.Unlock()
	ent := e.entries.m[k]
	if ent == nil {
		ent = &entry{engine: e, key: k, field: e.HolderID(n) + s.Suffix, fresh: fresh}
		e.entries.m[k] = ent
	}
	ent.refs++
	return ent
}

// join returns the entry for s of the holder in ctx, or of a fresh one, and
// counts the caller in.
func (e *Engine) join(ctx context.Context, s *Spec) (ent *entry, fresh bool) {
	for {
		n, fresh := e.holderFor(ctx, s)
		ent := e.enter(n, s, fresh)
		if fresh {
			return ent, true
		}
		// The hold that ctx speaks for may have been given back just now. Who
		// gives it back from here on sees that somebody is there.
		if now, ok := e.holderIn(ctx, s); ok && now == n {
			return ent, false
		}
		ent.leave()
	}
}

// alone reports whether the caller is the only one who is counted in.
func (ent *entry) alone() bool {
	es := &ent.engine.entries
	es.mu.Lock()
	defer es.mu.Unlock()
	return ent.refs == 1
}

// find returns the entry of a holder for s if there is one, and counts the
// caller in.
func (e *Engine) find(n uint64, s *Spec) *entry {
	e.entries.mu.Lock()
	defer e.entries.mu.Unlock()
	ent := e.entries.m[entryKey{n, s.Key, s.Suffix}]
	if ent != nil {
		ent.refs++
	}
	return ent
}

// otherCount returns how often a holder has the other half of s.
func (e *Engine) otherCount(n uint64, s *Spec) int {
	if !s.Half {
		return 0
	}
	e.entries.mu.Lock()
	ent := e.entries.m[entryKey{n, s.Key, s.Other}]
	e.entries.mu.Unlock()
	if ent == nil {
		return 0
	}
	return ent.counted()
}

// leave counts one user of ent out; the last one takes it from the map.
func (ent *entry) leave() {
	es := &ent.engine.entries
	es.mu.Lock()
	defer es.mu.Unlock()
	ent.refs--
	if ent.refs == 0 {
		delete(es.m, ent.key)
	}
}

// rejoin counts the caller in although ent may have left the map. It returns
// false when another entry is in its place: the holder has gone on.
func (ent *entry) rejoin() bool {
	es := &ent.engine.entries
	es.mu.Lock()
	defer es.mu.Unlock()
	switch es.m[ent.key] {
	case ent:
	case nil:
		es.m[ent.key] = ent
	default:
		return false
	}
	ent.refs++
	return true
}

// stay counts one more user in; the caller is one already.
func (ent *entry) stay() {
	es := &ent.engine.entries
	es.mu.Lock()
	ent.refs++
	es.mu.Unlock()
}

// stayFor keeps ent for whoever comes next, for so long. The caller is counted in.
func (ent *entry) stayFor(d time.Duration) {
	ent.stay()
	time.AfterFunc(d, ent.leave)
}

// all returns every entry, counted in.
func (es *entries) all() []*entry {
	es.mu.Lock()
	defer es.mu.Unlock()
	out := make([]*entry, 0, len(es.m))
	for _, ent := range es.m {
		ent.refs++
		out = append(out, ent)
	}
	return out
}

// held returns the number of holds.
func (es *entries) held() int {
	es.mu.Lock()
	all := make([]*entry, 0, len(es.m))
	for _, ent := range es.m {
		all = append(all, ent)
	}
	es.mu.Unlock() // whoever has an entry's may want it
	n := 0
	for _, ent := range all {
		ent.mu.Lock()
		n += len(ent.holds)
		ent.mu.Unlock()
	}
	return n
}

// releaseInDoubt notes that a request to give back was sent and not answered, and may
// act until then. The caller has ops and is counted in; the entry stays for
// whoever comes next.
func (ent *entry) releaseInDoubt(until time.Time) {
	d := time.Until(until)
	if d <= 0 || !until.After(ent.releaseInDoubtUntil) {
		return
	}
	ent.releaseInDoubtUntil = until
	ent.stayFor(d)
}

// remember keeps h, whose release got no answer, for as long as it may stand in Redis:
// its holder may give it back again without having it in the hand. The caller has ops
// and is counted in.
func (ent *entry) remember(h *Hold) {
	ent.mu.Lock()
	ent.unknown = h
	ent.mu.Unlock()
	if d := ent.left.Remaining(ent.engine.now()); d > 0 {
		ent.stayFor(d)
	}
}

// releaseInDoubtFor returns how long a request to give back may yet act that got no answer.
// The caller has ops.
func (ent *entry) releaseInDoubtFor() time.Duration {
	if ent.releaseInDoubtUntil.IsZero() {
		return 0
	}
	return time.Until(ent.releaseInDoubtUntil)
}

// actsUntil returns until when a request to give back may act that is sent now.
func actsUntil() time.Time { return time.Now().Add(returnBound + run.ClockSlack) }

// counted returns the hold count.
func (ent *entry) counted() int {
	ent.mu.Lock()
	defer ent.mu.Unlock()
	return ent.count
}

// takenSignal returns a channel that is closed when the holder comes to hold
// the lock, and whether it does already.
func (ent *entry) takenSignal() (<-chan struct{}, bool) {
	ent.mu.Lock()
	defer ent.mu.Unlock()
	if ent.count > 0 {
		return nil, true
	}
	if ent.taken == nil {
		ent.taken = make(chan struct{})
	}
	return ent.taken, false
}

// planLocked says how the watchdog keeps what the holds ask for: with several
// holds the longer lease wins, and one that is renewed without a limit wins
// over all.
func (ent *entry) planLocked(now time.Time) watchdog.Plan {
	var plan watchdog.Plan
	limited := true
	for _, h := range ent.holds {
		if h.cfg.Lease > 0 || h.forsaken {
			continue
		}
		plan.Lease = ent.engine.cfg.WatchdogTimeout
		if h.cfg.MaxHold == 0 {
			limited = false
			continue
		}
		plan.Max = max(plan.Max, h.cfg.MaxHold-now.Sub(h.since), 1)
	}
	if !limited {
		plan.Max = 0
	}
	return plan
}

// grant records one more hold, and puts the entry under the watchdog's care.
// It returns nil when the lease was over before its answer came, or what the
// hold builds on was lost meanwhile. The caller has ops.
func (ent *entry) grant(parent context.Context, s *Spec, cfg *LockConfig, g Grant, count int, window watchdog.Window) *Hold {
	since := time.Now()
	ent.mu.Lock()
	defer ent.mu.Unlock()
	if ent.count != count-1 {
		return nil
	}
	h := ent.newHoldLocked()
	*h = Hold{entry: ent, spec: s, cfg: cfg, parent: parent, token: g.Token, since: since}
	first := ent.count == 0
	if first {
		ent.chain, ent.unknown = g.chain, nil
	}
	ent.holds = append(ent.holds, h)
	plan := ent.planLocked(h.since)
	if first {
		// A new item each time: a loss that the watchdog has found but not told
		// yet must not be taken for a loss of this hold.
		ent.item = ent.newItem()
		*ent.item = watchdog.Item{Group: s.group, Subject: ent}
		if !ent.engine.watchdog.Add(ent.item, window, plan) {
			ent.holds = nil
			return nil
		}
		ent.stay()
		if ent.taken != nil {
			close(ent.taken)
			ent.taken = nil
		}
	} else {
		ent.engine.watchdog.Change(ent.item, window, plan)
	}
	ent.count = count
	ent.token, ent.more = g.Token, g.more // none, after a re-entry: its token is above them
	if first {
		ent.label, ent.atLeast, ent.slice = "", time.Time{}, g.slice
		ent.handed = !g.slice.IsZero()
		if g.slice.IsZero() {
			ent.slice = h.since.Add(ent.engine.cfg.HandOver)
		}
	}
	if cfg.Label != "" {
		ent.label = cfg.Label
	}
	if until := h.since.Add(cfg.AtLeast); cfg.AtLeast > 0 && until.After(ent.atLeast) {
		ent.atLeast = until
	}
	return h
}

// lingers returns for how long the lock must stay closed yet. The caller has ops.
func (ent *entry) lingers() time.Duration {
	if ent.atLeast.IsZero() {
		return 0
	}
	return time.Until(ent.atLeast)
}

// beginClaim counts one more attempt in the name of ent.
func (ent *entry) beginClaim() {
	ent.mu.Lock()
	ent.claims++
	ent.mu.Unlock()
}

// endClaim counts one out, and reports whether it was the last one and has left what the
// holder was given.
func (ent *entry) endClaim() (left bool) {
	ent.mu.Lock()
	defer ent.mu.Unlock()
	ent.claims--
	if ent.claims == 0 {
		left, ent.heard = ent.heard && ent.count == 0, false
	}
	return left
}

// hear notes that the holder was given something. It returns false when there is no
// attempt that asks for it, or takes care of it at its end.
func (ent *entry) hear() bool {
	ent.mu.Lock()
	defer ent.mu.Unlock()
	ent.heard = ent.claims > 0
	return ent.heard
}

// had reports whether the holder has come to hold the lock since it was entered.
func (ent *entry) had() bool {
	ent.mu.Lock()
	defer ent.mu.Unlock()
	return ent.room.hold.entry != nil
}

// newItem returns an item that was never watched.
func (ent *entry) newItem() *watchdog.Item {
	if ent.item == nil {
		return &ent.room.item
	}
	return new(watchdog.Item)
}

// newHoldLocked returns one that was never anybody's. The room among the holds is
// for the first one too: endAll looks at its holds when others may have come.
func (ent *entry) newHoldLocked() *Hold {
	if ent.room.hold.entry != nil {
		return new(Hold)
	}
	ent.holds = ent.room.holds[:0]
	return &ent.room.hold
}

// dropLocked takes h out of the holds.
func (ent *entry) dropLocked(h *Hold) {
	if i := slices.Index(ent.holds, h); i >= 0 {
		ent.holds = slices.Delete(ent.holds, i, i+1)
	}
}

// Lost ends all holds that it was watched for.
func (ent *entry) Lost(it *watchdog.Item, r watchdog.Reason) {
	why := LossTaken
	if r == watchdog.WindowOver {
		why = ent.expiry()
	}
	ent.endAll(it, lost, ErrLeaseLost, why)
}

// gone ends all holds because Redis says that the lock is not this holder's. The
// caller has ops.
func (ent *entry) gone() { ent.lose(LossTaken) }

// lose ends all holds as lost. The caller has ops, and whoever wants to know hears of
// it when it has given them back.
func (ent *entry) lose(why LossReason) {
	for _, h := range ent.end(nil, lost, ErrLeaseLost) {
		ent.untold = append(ent.untold, func() { ent.engine.lost(h.spec, h.since, why) })
	}
}

// endAll ends every hold of ent that it watches over (nil: whatever does) and
// returns them. why is the reason of a loss.
func (ent *entry) endAll(it *watchdog.Item, st state, cause error, why LossReason) []*Hold {
	holds := ent.end(it, st, cause)
	for _, h := range holds {
		if st == lost {
			ent.engine.lost(h.spec, h.since, why)
		} else {
			ent.engine.cfg.Hooks.released(h.spec, h.since)
		}
	}
	return holds
}

// end is endAll that tells nobody.
func (ent *entry) end(it *watchdog.Item, st state, cause error) []*Hold {
	ent.mu.Lock()
	if ent.count == 0 || (it != nil && it != ent.item) {
		ent.mu.Unlock()
		return nil
	}
	ent.engine.watchdog.Remove(ent.item)
	ent.count = 0
	holds := ent.holds
	ent.holds = nil
	for _, h := range holds {
		h.endLocked(st, cause)
	}
	ent.mu.Unlock()
	ent.leave()
	return holds
}
