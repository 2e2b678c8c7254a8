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

// A holding is one holder's part in one lock: how often the holder holds it,
// and until when. There is one for each field of a hash in Redis that belongs
// to this client.
type holding struct {
	engine *Engine
	key    holdingKey
	field  string // the field in the hash: "<client id>:<number>" and the suffix
	refs   int    // calls that use the holding, plus 1 while the lock is held

	// ops is full while somebody has it: whoever sends a script that changes the
	// hold count. Its capacity is 1.
	ops chan struct{}
	// Guarded by ops: the holder will not hold the lock again after it has
	// released it.
	fresh bool
	// Guarded by ops: the lock was handed over within this process.
	handed bool
	// Guarded by ops: until when a release without a reply may still take
	// effect. No acquire is sent before that, so that the release cannot affect
	// it.
	releaseInDoubtUntil time.Time
	// Written with ops and mu: the last label of one of the holds, which share
	// it. Renewals and the last release need it.
	label string
	// Written with ops: when the first of the holds was granted.
	since time.Time
	// Written with ops: a request with a label may have been executed since the
	// lock was free. The last release therefore removes the label, even if it
	// is that of none of the holds.
	tagged atomic.Bool
	// Guarded by ops: until when the lock stays closed, whatever happens.
	atLeast time.Time
	// Guarded by ops: until when the lock may be handed over in this process,
	// and what was left of the window of the hold that was given up last.
	slice time.Time
	left  watchdog.Window
	// Guarded by ops: the last fencing token, and how many more after it can be
	// handed over.
	token, more int64
	// Guarded by ops: reports of losses that are made when ops are free.
	untold []func()

	// mu guards the fields below.
	mu    sync.Mutex
	count int            // hold count in Redis, as far as known
	holds []*Hold        // the holds that make up the count, oldest first
	taken chan struct{}  // closed when count becomes positive; made on demand
	item  *watchdog.Item // watched while count is positive
	// waits is when the last request was sent that found the holder waiting.
	// waitsAt is when it was answered, in server ms.
	waits   watchdog.Instant
	waitsAt int64
	// extends is the number of calls of Extend under way. extended is until when
	// no waiter takes the holding over because of an Extend that has ended: its
	// request may be executed yet, or was executed as its hold was given up.
	extends  int
	extended time.Time
	ends     int64    // server ms: end of the lease that was granted last and that the holder had to ask for
	attempts int      // attempts in its name that have not ended
	heard    bool     // it was granted something that nobody has taken
	ownEntry ownEntry // for the waitlist; see waitlist.go
	// unknown is the last hold, if it was given back and Redis did not answer.
	unknown *Hold
	// acquireInDoubtUntil is until when an acquire without a reply may be
	// executed.
	acquireInDoubtUntil time.Time
	room                room // memory for the first hold; most holdings have no other
}

// A room is the memory of a first hold, so that it need not be allocated
// separately.
type room struct {
	item  watchdog.Item
	hold  Hold
	holds [1]*Hold
}

// holder returns "<client id>:<number>".
func (hd *holding) holder() string { return strings.TrimSuffix(hd.field, hd.key.suffix) }

// lockOps takes ops, waiting until it is free or ctx is done. If it is free, it
// is taken even if ctx has ended.
func (hd *holding) lockOps(ctx context.Context) error {
	if hd.tryOps() {
		return nil
	}
	select {
	case hd.ops <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryOps takes ops if it is free.
func (hd *holding) tryOps() bool {
	select {
	case hd.ops <- struct{}{}:
		return true
	default:
		return false
	}
}

// unlockOps gives ops back, and reports the losses that were found meanwhile.
func (hd *holding) unlockOps() {
	tell := hd.untold
	hd.untold = nil
	<-hd.ops
	for _, f := range tell {
		f()
	}
}

// cleanUpOps is lockOps with a time limit, for clean-up, which must not keep
// others waiting.
func (hd *holding) cleanUpOps(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, returnBound)
	defer cancel()
	return hd.lockOps(once)
}

// releaseInDoubt notes that a release was sent and not answered, and may take
// effect until until. The caller has ops and is counted in. The holding stays
// for the next user.
func (hd *holding) releaseInDoubt(until time.Time) {
	d := time.Until(until)
	if d <= 0 || !until.After(hd.releaseInDoubtUntil) {
		return
	}
	hd.releaseInDoubtUntil = until
	hd.stayFor(d)
}

// remember keeps h, whose release got no reply, for as long as it may exist in
// Redis: its holder may release it again without the Hold. The caller has ops
// and is counted in.
func (hd *holding) remember(h *Hold) {
	hd.mu.Lock()
	hd.unknown = h
	hd.mu.Unlock()
	if d := hd.left.Remaining(hd.engine.now()); d > 0 {
		hd.stayFor(d)
	}
}

// releaseInDoubtFor returns for how long a release without a reply may still
// take effect. The caller has ops.
func (hd *holding) releaseInDoubtFor() time.Duration {
	if hd.releaseInDoubtUntil.IsZero() {
		return 0
	}
	return time.Until(hd.releaseInDoubtUntil)
}

// actsUntil returns until when a release that is sent now may take effect.
func actsUntil() time.Time { return time.Now().Add(returnBound + run.ClockSlack) }

// counted returns the hold count.
func (hd *holding) counted() int {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	return hd.count
}

// takenSignal returns a channel that is closed when the holder gets the lock,
// and whether it has the lock already.
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

// planLocked returns the watchdog's plan for the holds. Of several holds, the
// longer lease counts, and a hold that is renewed without a limit counts most.
func (hd *holding) planLocked(now time.Time) watchdog.Plan {
	var plan watchdog.Plan
	limited := true
	for _, h := range hd.holds {
		if h.cfg.Lease > 0 || h.forsaken {
			continue
		}
		plan.Lease = max(plan.Lease, hd.engine.renewed(h.cfg))
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

// grant records one more hold and adds the holding to the watchdog. It returns
// nil if the lease was over before its reply came, or if the hold that it
// builds on was lost meanwhile. The caller has ops.
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
		// Each first hold has a new item: a loss that the watchdog has found
		// but not reported yet must not be taken for a loss of this hold.
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
	hd.token, hd.more = g.Token, g.more // none after a re-entry, whose token is above them
	if first {
		hd.label, hd.since, hd.atLeast, hd.slice = "", since, time.Time{}, g.slice
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

// lingers returns for how long the lock must still stay closed. The caller has
// ops.
func (hd *holding) lingers() time.Duration {
	if hd.atLeast.IsZero() {
		return 0
	}
	return time.Until(hd.atLeast)
}

// hear notes a grant to the holder. It returns false if no attempt asks for the
// lock, or will give the grant back at its end.
func (hd *holding) hear() bool {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.heard = hd.attempts > 0
	return hd.heard
}

// had reports whether the holder has had the lock since the holding was
// entered.
func (hd *holding) had() bool {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	return hd.room.hold.holding != nil
}

// newHoldLocked returns a Hold that nobody has used: the one in room in, if it
// is unused. The array in the room serves only the first hold too, because end
// reads its holds when others may have come.
func (hd *holding) newHoldLocked(in *room) *Hold {
	if in.hold.holding != nil {
		return new(Hold)
	}
	hd.holds = append(in.holds[:0], hd.holds...)
	return &in.hold
}

// dropLocked removes h from the holds.
func (hd *holding) dropLocked(h *Hold) {
	if i := slices.Index(hd.holds, h); i >= 0 {
		hd.holds = slices.Delete(hd.holds, i, i+1)
	}
}

// Lost ends all holds that the item was for.
func (hd *holding) Lost(it *watchdog.Item, r watchdog.Reason) {
	why := LossTaken
	if r == watchdog.WindowOver {
		why = hd.expiry()
	}
	hd.endAll(it, lost, ErrLeaseLost, why)
}

// gone ends all holds because Redis reports that the lock is not this holder's.
// The caller has ops.
func (hd *holding) gone() { hd.lose(LossTaken) }

// lose ends all holds as lost. The caller has ops. The loss is reported when
// ops are free.
func (hd *holding) lose(why LossReason) {
	for _, h := range hd.end(nil, lost, ErrLeaseLost) {
		hd.untold = append(hd.untold, func() { hd.engine.lost(h, why) })
	}
}

// endAll ends all holds of hd that item it is for (nil: any item), reports
// them, and returns them. why is the reason of a loss.
func (hd *holding) endAll(it *watchdog.Item, st state, cause error, why LossReason) []*Hold {
	holds := hd.end(it, st, cause)
	for _, h := range holds {
		if st == lost {
			hd.engine.lost(h, why)
		} else {
			hd.engine.released(h)
		}
	}
	return holds
}

// end is endAll without the reports.
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
