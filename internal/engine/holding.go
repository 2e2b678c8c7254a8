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

// holdings are what the holders of this client have, by holder and key.
type holdings struct {
	// mu guards the field below and refs of every holding.
	mu sync.Mutex
	m  map[entryKey]*holding
}

type entryKey struct {
	holder uint64
	key    string // the main key
	suffix string // of the field of the hash: the half of a pair
}

func (es *holdings) init() { es.m = make(map[entryKey]*holding) }

// A holding is one holder's part in one lock: how often it holds it, and until
// when. There is one for each field of a hash in Redis that is ours.
type holding struct {
	engine *Engine
	key    entryKey
	field  string // the field in the hash: "<client id>:<number>" and the suffix
	refs   int    // calls that use the holding, and 1 while it holds

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
	// extends is how many calls of Extend are under way; extended, until when nobody takes
	// the holding over because of one that has ended: its request may be carried out yet, or
	// was so as its hold was given up.
	extends  int
	extended time.Time
	ends     int64    // server ms: when the lease ends that it was given last, and had to ask for
	attempts int      // attempts in its name that have not come to their end
	heard    bool     // that it was given something, which it has not taken
	ownEntry ownEntry // for the waitlist; see waitlist.go
	// unknown is the last hold, when it was given back and Redis did not answer.
	unknown *Hold
	// acquireInDoubtUntil is until when a request without an answer may be carried out.
	acquireInDoubtUntil time.Time
	room                room // for the first hold: most holdings have no other
}

// A room is what a first hold takes, so that it need not be allocated by itself.
type room struct {
	item  watchdog.Item
	hold  Hold
	holds [1]*Hold
}

// holder returns "<client id>:<number>".
func (hd *holding) holder() string { return strings.TrimSuffix(hd.field, hd.key.suffix) }

// enter returns the holding of a holder for s, and counts the caller in. fresh says
// that the holder was made for this acquisition.
func (e *Engine) enter(n uint64, s *Spec, fresh bool) *holding {
	k := entryKey{n, s.Key, s.Suffix}
	e.holdings.mu.Lock()
	defer e.holdings.mu.Unlock()
	hd := e.holdings.m[k]
	if hd == nil {
		hd = &holding{engine: e, key: k, field: e.HolderID(n) + s.Suffix, fresh: fresh}
		e.holdings.m[k] = hd
	}
	hd.refs++
	return hd
}

// join returns the holding for s of the holder in ctx, or of a fresh one, and
// counts the caller in.
func (e *Engine) join(ctx context.Context, s *Spec) (hd *holding, fresh bool) {
	for {
		n, fresh := e.holderFor(ctx, s)
		hd := e.enter(n, s, fresh)
		if fresh {
			return hd, true
		}
		// The hold that ctx speaks for may have been given back just now. Who
		// gives it back from here on sees that somebody is there.
		if now, ok := e.holderIn(ctx, s); ok && now == n {
			return hd, false
		}
		hd.leave()
	}
}

// alone reports whether the caller is the only one who is counted in.
func (hd *holding) alone() bool {
	es := &hd.engine.holdings
	es.mu.Lock()
	defer es.mu.Unlock()
	return hd.refs == 1
}

// find returns the holding of a holder for s if there is one, and counts the
// caller in.
func (e *Engine) find(n uint64, s *Spec) *holding {
	e.holdings.mu.Lock()
	defer e.holdings.mu.Unlock()
	hd := e.holdings.m[entryKey{n, s.Key, s.Suffix}]
	if hd != nil {
		hd.refs++
	}
	return hd
}

// findIn returns the holder that ctx names for s, if any, and its holding for s, counted
// in; nil if there is none.
func (e *Engine) findIn(ctx context.Context, s *Spec) (hd *holding, n uint64, ok bool) {
	for {
		n, ok := e.holderIn(ctx, s)
		if !ok {
			return nil, 0, false
		}
		hd := e.find(n, s)
		// As in join: else a waiter may have taken the holding over just now.
		if now, ok := e.holderIn(ctx, s); ok && now == n {
			return hd, n, true
		}
		if hd != nil {
			hd.leave()
		}
	}
}

// otherCount returns how often a holder has the other half of s.
func (e *Engine) otherCount(n uint64, s *Spec) int {
	if !s.Half {
		return 0
	}
	e.holdings.mu.Lock()
	hd := e.holdings.m[entryKey{n, s.Key, s.Other}]
	e.holdings.mu.Unlock()
	if hd == nil {
		return 0
	}
	return hd.counted()
}

// leave counts one user of hd out; the last one takes it from the map.
func (hd *holding) leave() {
	es := &hd.engine.holdings
	es.mu.Lock()
	defer es.mu.Unlock()
	hd.refs--
	if hd.refs == 0 {
		delete(es.m, hd.key)
	}
}

// rejoin counts the caller in although hd may have left the map. It returns
// false when another holding is in its place: the holder has gone on.
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

// stay counts one more user in; the caller is one already.
func (hd *holding) stay() {
	es := &hd.engine.holdings
	es.mu.Lock()
	hd.refs++
	es.mu.Unlock()
}

// stayFor keeps hd for whoever comes next, for so long. The caller is counted in.
func (hd *holding) stayFor(d time.Duration) {
	hd.stay()
	time.AfterFunc(d, hd.leave)
}

// all returns every holding, counted in.
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
	es.mu.Unlock() // whoever has a holding's may want it
	n := 0
	for _, hd := range all {
		hd.mu.Lock()
		n += len(hd.holds)
		hd.mu.Unlock()
	}
	return n
}

// releaseInDoubt notes that a request to give back was sent and not answered, and may
// act until then. The caller has ops and is counted in; the holding stays for
// whoever comes next.
func (hd *holding) releaseInDoubt(until time.Time) {
	d := time.Until(until)
	if d <= 0 || !until.After(hd.releaseInDoubtUntil) {
		return
	}
	hd.releaseInDoubtUntil = until
	hd.stayFor(d)
}

// remember keeps h, whose release got no answer, for as long as it may stand in Redis:
// its holder may give it back again without having it in the hand. The caller has ops
// and is counted in.
func (hd *holding) remember(h *Hold) {
	hd.mu.Lock()
	hd.unknown = h
	hd.mu.Unlock()
	if d := hd.left.Remaining(hd.engine.now()); d > 0 {
		hd.stayFor(d)
	}
}

// releaseInDoubtFor returns how long a request to give back may yet act that got no answer.
// The caller has ops.
func (hd *holding) releaseInDoubtFor() time.Duration {
	if hd.releaseInDoubtUntil.IsZero() {
		return 0
	}
	return time.Until(hd.releaseInDoubtUntil)
}

// actsUntil returns until when a request to give back may act that is sent now.
func actsUntil() time.Time { return time.Now().Add(returnBound + run.ClockSlack) }

// counted returns the hold count.
func (hd *holding) counted() int {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	return hd.count
}

// takenSignal returns a channel that is closed when the holder comes to hold
// the lock, and whether it does already.
func (hd *holding) takenSignal() (<-chan struct{}, bool) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if hd.count > 0 {
		return nil, true
	}
	if hd.taken == nil {
		hd.taken = make(chan struct{})
	}
	return hd.taken, false
}

// planLocked says how the watchdog keeps what the holds ask for: with several
// holds the longer lease wins, and one that is renewed without a limit wins
// over all.
func (hd *holding) planLocked(now time.Time) watchdog.Plan {
	var plan watchdog.Plan
	limited := true
	for _, h := range hd.holds {
		if h.cfg.Lease > 0 || h.forsaken {
			continue
		}
		plan.Lease = hd.engine.cfg.WatchdogTimeout
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

// grant records one more hold, and puts the holding under the watchdog's care.
// It returns nil when the lease was over before its answer came, or what the
// hold builds on was lost meanwhile. The caller has ops.
func (hd *holding) grant(parent context.Context, s *Spec, cfg *LockConfig, g Grant, count int, window watchdog.Window) *Hold {
	since := time.Now()
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if hd.count != count-1 {
		return nil
	}
	in := g.room
	if in == nil {
		in = &hd.room
	}
	h := hd.newHoldLocked(in)
	*h = Hold{holding: hd, spec: s, cfg: cfg, parent: parent, token: g.Token, since: since}
	first := hd.count == 0
	if first {
		hd.unknown = nil
	}
	hd.holds = append(hd.holds, h)
	plan := hd.planLocked(h.since)
	if first {
		// A new item each time: a loss that the watchdog has found but not told
		// yet must not be taken for a loss of this hold.
		if hd.item = &in.item; h != &in.hold {
			hd.item = new(watchdog.Item)
		}
		*hd.item = watchdog.Item{Group: s.group, Subject: hd}
		if !hd.engine.watchdog.Add(hd.item, window, plan) {
			hd.holds = nil
			return nil
		}
		hd.stay()
		if hd.taken != nil {
			close(hd.taken)
			hd.taken = nil
		}
	} else {
		hd.engine.watchdog.Change(hd.item, window, plan)
	}
	hd.count = count
	hd.token, hd.more = g.Token, g.more // none, after a re-entry: its token is above them
	if first {
		hd.label, hd.atLeast, hd.slice = "", time.Time{}, g.slice
		hd.handed = !g.slice.IsZero()
		if g.slice.IsZero() {
			hd.slice = h.since.Add(hd.engine.cfg.HandOver)
		}
	}
	if cfg.Label != "" {
		hd.label = cfg.Label
	}
	if until := h.since.Add(cfg.AtLeast); cfg.AtLeast > 0 && until.After(hd.atLeast) {
		hd.atLeast = until
	}
	return h
}

// lingers returns for how long the lock must stay closed yet. The caller has ops.
func (hd *holding) lingers() time.Duration {
	if hd.atLeast.IsZero() {
		return 0
	}
	return time.Until(hd.atLeast)
}

// beginAttempt counts one more attempt in the name of hd.
func (hd *holding) beginAttempt() {
	hd.mu.Lock()
	hd.attempts++
	hd.mu.Unlock()
}

// endAttempt counts one out, and reports whether it was the last one and has left what the
// holder was given.
func (hd *holding) endAttempt() (left bool) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.attempts--
	if hd.attempts == 0 {
		left, hd.heard = hd.heard && hd.count == 0, false
	}
	return left
}

// hear notes that the holder was given something. It returns false when there is no
// attempt that asks for it, or takes care of it at its end.
func (hd *holding) hear() bool {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.heard = hd.attempts > 0
	return hd.heard
}

// had reports whether the holder has come to hold the lock since it was entered.
func (hd *holding) had() bool {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	return hd.room.hold.holding != nil
}

// newHoldLocked returns a Hold that was never anybody's, in that room if nobody has been
// there. The room among the holds is for the first one too: end looks at its holds when
// others may have come.
func (hd *holding) newHoldLocked(in *room) *Hold {
	if in.hold.holding != nil {
		return new(Hold)
	}
	hd.holds = append(in.holds[:0], hd.holds...)
	return &in.hold
}

// dropLocked takes h out of the holds.
func (hd *holding) dropLocked(h *Hold) {
	if i := slices.Index(hd.holds, h); i >= 0 {
		hd.holds = slices.Delete(hd.holds, i, i+1)
	}
}

// Lost ends all holds that it was watched for.
func (hd *holding) Lost(it *watchdog.Item, r watchdog.Reason) {
	why := LossTaken
	if r == watchdog.WindowOver {
		why = hd.expiry()
	}
	hd.endAll(it, lost, ErrLeaseLost, why)
}

// gone ends all holds because Redis says that the lock is not this holder's. The
// caller has ops.
func (hd *holding) gone() { hd.lose(LossTaken) }

// lose ends all holds as lost. The caller has ops, and whoever wants to know hears of
// it when it has given them back.
func (hd *holding) lose(why LossReason) {
	for _, h := range hd.end(nil, lost, ErrLeaseLost) {
		hd.untold = append(hd.untold, func() { hd.engine.lost(h.spec, h.since, why) })
	}
}

// endAll ends every hold of hd that it watches over (nil: whatever does) and
// returns them. why is the reason of a loss.
func (hd *holding) endAll(it *watchdog.Item, st state, cause error, why LossReason) []*Hold {
	holds := hd.end(it, st, cause)
	for _, h := range holds {
		if st == lost {
			hd.engine.lost(h.spec, h.since, why)
		} else {
			hd.engine.cfg.Hooks.released(h.spec, h.since)
		}
	}
	return holds
}

// end is endAll that tells nobody.
func (hd *holding) end(it *watchdog.Item, st state, cause error) []*Hold {
	hd.mu.Lock()
	if hd.count == 0 || (it != nil && it != hd.item) {
		hd.mu.Unlock()
		return nil
	}
	hd.engine.watchdog.Remove(hd.item)
	hd.count = 0
	holds := hd.holds
	hd.holds = nil
	for _, h := range holds {
		h.endLocked(st, cause)
	}
	hd.mu.Unlock()
	hd.leave()
	return holds
}
