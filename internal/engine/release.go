package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// returnBound is how long one release request may take. Its script refuses to
// act later, so that it cannot affect a later hold of its holder.
const returnBound = time.Second

// Unlock gives one hold back. It continues after ctx is cancelled, for at most
// the unlock timeout.
func (h *Hold) Unlock(ctx context.Context) error {
	e := h.holding.engine
	return h.unlock(run.Detached(ctx, e.cfg.UnlockTimeout), nil)
}

// PassTo is Unlock, except that the given holder, as Redis shows it, has the lock
// afterwards, with a lease of its own that nobody renews yet. That holder acquires the
// lock again to hold it, with the token that was taken for it here. If that holder does
// not claim the lock when it is passed, claimed is false and the lock is free instead.
func (h *Hold) PassTo(ctx context.Context, holder string, lease time.Duration, claim Claim) (claimed bool, err error) {
	e := h.holding.engine
	to := &passing{Request: Request{Holder: holder, Count: 1, Lease: lease}, claim: claim}
	if h.spec.Fenced {
		to.Tokens = 1
	}
	err = h.unlock(run.Detached(ctx, e.cfg.UnlockTimeout), to)
	return !to.refused, err
}

// A passing is what PassTo asks for.
type passing struct {
	Request
	claim   Claim
	refused bool // the heir does not claim the lock
}

// unlock is Unlock within bounded, or PassTo.
func (h *Hold) unlock(bounded context.Context, to *passing) error {
	e, hd := h.holding.engine, h.holding
	if !e.gate.Enter() {
		return h.closedErr("unlock")
	}
	defer e.gate.Leave()
	// Counted in, so that a Lock by the same holder uses this holding.
	if !hd.rejoin() {
		return h.NotHeld("unlock")
	}
	handed := false // to a waiter, which then has the holding
	defer func() {
		if !handed {
			hd.leave()
		}
	}()
	if !hd.tryOps() {
		timed, cancel := run.Timed(bounded)
		defer cancel()
		if err := hd.lockOps(timed); err != nil {
			h.forsake()
			return e.Wrap("unlock", h.spec, inDoubt{err})
		}
	}
	target, trusted, err := h.giveUp()
	if err != nil {
		if errors.Is(err, ErrLeaseLost) {
			h.giveUpRest(bounded)
		}
		hd.unlockOps()
		return e.Wrap("unlock", h.spec, err)
	}
	if handed = to == nil && target == 0 && trusted && h.handOver(); handed {
		e.released(h)
		return nil
	}
	err = h.giveBack(bounded, target, trusted, to)
	if Done(err) && target == 0 {
		hd.resolve(h.spec)
	}
	if trusted && !errors.Is(err, ErrLeaseLost) {
		e.released(h) // once, whatever Redis replies
	}
	return e.Wrap("unlock", h.spec, err)
}

// forsake ends the Context of h and its renewals. It is for a hold that could
// not be given back because another call of the holder is under way. The hold
// ends with its lease, unless Unlock is called again.
func (h *Hold) forsake() {
	hd := h.holding
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if h.state != held || h.forsaken {
		return
	}
	h.forsaken, h.cause = true, context.Canceled
	if h.cancel != nil {
		h.cancel(h.cause)
	}
	hd.engine.watchdog.Change(hd.item, watchdog.Window{}, hd.planLocked(time.Now()))
}

// closedErr returns the error of Unlock after the client is closed.
func (h *Hold) closedErr(op string) error {
	h.holding.mu.Lock()
	defer h.holding.mu.Unlock()
	if h.state == lost {
		return h.holding.engine.Wrap(op, h.spec, errLost)
	}
	return h.holding.engine.Wrap(op, h.spec, run.ErrClosed)
}

// giveUp ends h on this side: its Context is done and the watchdog forgets it
// before Redis is told. It returns the hold count to reach in Redis, and
// whether the hold could be trusted until now. The caller has ops.
func (h *Hold) giveUp() (target int, trusted bool, err error) {
	e, hd := h.holding.engine, h.holding
	hd.mu.Lock()
	if h.state == unknown && hd.count == h.target {
		hd.mu.Unlock()
		return h.target, false, nil // Unlock again after a lost reply
	}
	if err := h.stateErrLocked(); err != nil {
		hd.mu.Unlock()
		return 0, false, err
	}
	trusted = e.watchdog.Remaining(hd.item) > 0
	if !trusted {
		hd.mu.Unlock()
		select {
		case <-e.gate.Closed():
			return 0, false, run.ErrClosed // Close has ended the watchdog and gives h back
		default:
		}
		// The window is over and the watchdog has not reported it yet.
		hd.lose(hd.expiry())
		return 0, false, errLost
	}
	hd.dropLocked(h)
	hd.count--
	h.target = hd.count
	h.endLocked(released, context.Canceled)
	last := hd.count == 0
	if last {
		hd.left = e.watchdog.Take(hd.item)
	} else {
		e.watchdog.Change(hd.item, watchdog.Window{}, hd.planLocked(time.Now()))
	}
	hd.mu.Unlock()
	if last {
		hd.leave() // the caller is still counted in
		// A re-entry under way continues under the holder after this release.
		hd.fresh = hd.fresh && hd.alone()
	}
	return h.target, true, nil
}

// giveUpRest gives back, once, what Redis may still have of h, which was lost:
// a window ends before its lease, a renewal may have been executed after h was
// given up, and the server's clock may have been set back. A queue must also be
// told that the lock is free: no message announced the end of the lease, and
// its waiters may have asked last under an earlier lease. The caller has ops.
func (h *Hold) giveUpRest(ctx context.Context) {
	if h.ret.Holder == "" { // otherwise Redis has been asked
		h.holding.giveUpRest(ctx, h.spec, &h.ret)
	}
}

// giveUpRest is Hold.giveUpRest by the request ret.
func (hd *holding) giveUpRest(ctx context.Context, s *Spec, ret *Return) {
	e := hd.engine
	if hd.counted() > 0 || e.lines.InGroup(s.Line, hd.field) {
		return // the holder has it again, or may be granted it
	}
	hd.fresh = hd.fresh && hd.alone() // a re-entry under way continues under the holder, as in giveUp
	now := time.Now()
	*ret = Return{Holder: hd.field, Label: hd.tag()}
	ret.lingerFor(hd, s)
	v, err := e.returnOnce(ctx, hd, s, ret, now)
	if run.Classify(err) == run.Unknown && !hd.fresh {
		hd.releaseInDoubt(now.Add(returnBound + run.ClockSlack))
	}
	switch {
	case err == nil && v == Granted:
		e.labelClosed(ctx, s, ret)
	case err == nil && v == NotHolder && ret.Label != "":
		hd.dropLabel(ctx, s)
	}
}

// lingerFor makes the key expire by itself if a hold of hd has to last longer.
// The key then names a placeholder holder, so that the holder of hd is refused
// like any other.
func (r *Return) lingerFor(hd *holding, s *Spec) {
	if left := hd.lingers(); left >= time.Millisecond {
		r.Linger, r.LingerAs = left, hd.engine.HolderID(NewHolder())+s.Suffix
		r.Closed = closing{hd.label, hd.since, hd.atLeast}
	}
}

// markLost notes that Redis did not know h any more when it was given back.
// item watches the holder's other holds.
func (h *Hold) markLost(item *watchdog.Item) {
	e, hd := h.holding.engine, h.holding
	hd.mu.Lock()
	if h.state == closed {
		hd.mu.Unlock()
		return // Close has reported that
	}
	h.state = lost
	if h.gone != nil {
		close(h.gone)
	}
	hd.mu.Unlock()
	hd.endAll(item, lost, ErrLeaseLost, LossTaken) // the holder's other holds are lost too
	e.lost(h, LossTaken)
}

// mark sets the state of h: unknown while it may still exist in Redis, so that
// Unlock may be tried again, and released once it does not.
func (h *Hold) mark(st state) {
	h.holding.mu.Lock()
	h.state = st
	h.holding.mu.Unlock()
}

// UnlockHolder gives back the latest hold on s of the holder in ctx.
func (e *Engine) UnlockHolder(ctx context.Context, s *Spec) error {
	if hd, n, ok := e.findIn(ctx, s); ok {
		bounded := run.Detached(ctx, e.cfg.UnlockTimeout)
		if hd != nil {
			defer hd.leave()
			for h := hd.latest(); h != nil; h = hd.latest() {
				// If another goroutine of the holder has just given that one
				// back, it is the turn of the one before it.
				if err := h.unlock(bounded, nil); !errors.Is(err, ErrNotHeld) || errors.Is(err, ErrLeaseLost) {
					return err
				}
			}
		}
		e.giveUpRest(bounded, n, s)
	}
	select {
	case <-e.gate.Closed():
		return e.Wrap("unlock", s, run.ErrClosed)
	default:
		return e.Wrap("unlock", s, ErrNotHeld)
	}
}

// giveUpRest is Hold.giveUpRest for a holder without a hold, which may have
// lost one that is not remembered.
func (e *Engine) giveUpRest(bounded context.Context, n uint64, s *Spec) {
	if s.err != nil || !e.gate.Enter() {
		return
	}
	defer e.gate.Leave()
	hd := e.enter(n, s, false)
	defer hd.leave()
	if !hd.tryOps() {
		return // another call of the holder is under way
	}
	defer hd.unlockOps()
	hd.giveUpRest(bounded, s, new(Return))
}

// latest returns the latest hold. Without one, it returns the hold whose
// release was left without a reply, or nil.
func (hd *holding) latest() *Hold {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	switch last := hd.unknown; {
	case len(hd.holds) > 0:
		return hd.holds[len(hd.holds)-1]
	case last != nil && last.state == unknown:
		return last
	}
	return nil
}

// releasers is how many holds Close gives back at a time.
const releasers = 16

// releaseAll gives back everything that is held. It first ends every Context
// and then sends the requests; a lock under HoldAtLeast stays closed for as
// long as it must.
func (e *Engine) releaseAll(ctx context.Context) error {
	var work []*Hold
	for _, hd := range e.holdings.all() {
		holds := hd.endAll(nil, closed, run.ErrClosed, "")
		hd.leave()
		if len(holds) > 0 {
			work = append(work, holds[len(holds)-1])
		}
	}
	queue := make(chan *Hold)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range min(releasers, len(work)) {
		wg.Go(func() {
			for h := range queue {
				err := h.holding.lockOps(ctx)
				if err == nil {
					err = h.giveBack(ctx, 0, true, nil)
				}
				if err != nil && !errors.Is(err, ErrNotHeld) {
					mu.Lock()
					errs = append(errs, e.Wrap("close", h.spec, err))
					mu.Unlock()
				}
			}
		})
	}
	for _, h := range work {
		queue <- h
	}
	close(queue)
	wg.Wait()
	return errors.Join(errs...)
}
