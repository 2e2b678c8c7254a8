package engine

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A release is one call of giveBack, with what its requests have shown so far.
type release struct {
	hold    *Hold
	target  int       // the hold count to reach
	to      *passing  // who has the lock then, or nil
	heirs   bool      // the next waiter of this client may have the lock
	maybe   bool      // an earlier request may have been executed
	acts    time.Time // until when a request without a reply may take effect
	kept    bool      // the request that was executed did not remove the label
	doubted *heir     // whom an earlier request may have granted the lock
}

// giveBack sends the release. If target is 0, to says who has the lock then; it may be
// nil. The caller has the holding's ops, which giveBack releases.
func (h *Hold) giveBack(ctx context.Context, target int, trusted bool, to *passing) error {
	e, hd, s, ret := h.holding.engine, h.holding, h.spec, &h.ret
	*ret = Return{Holder: hd.field, Count: target, Label: hd.tag(), acked: e.cfg.Acks.Releases}
	r := release{hold: h, target: target, to: to, maybe: !trusted}
	if target == 0 {
		ret.lingerFor(hd, s)
		if to != nil {
			ret.Heir, ret.Claim = &to.Request, &to.claim
		}
		// Only an ordinary release, or that of a queue, removes a label.
		r.heirs = to == nil && ret.Linger == 0 && (s.Queue != nil || ret.Label == "")
	}
	retry := e.NewRetrier(e.cfg.UnlockTimeout)
	for {
		v, again, err := r.ask(ctx)
		switch {
		case again:
			continue
		case err == nil && (v == Granted || v == Unchanged), err == nil && v == NotHolder && r.maybe:
			if !trusted {
				h.mark(released)
			}
			r.done(ctx, v)
			return ret.short
		case err == nil && v == NotHolder:
			r.lost(ctx)
			return errLost
		case err == nil && v == Refused && ret.Claim != nil:
			to.refused, ret.Heir, ret.Claim = true, nil, nil
			continue
		case err == nil: // too late; the server's clock is known now
			err = run.ErrLate
		}
		if run.Hopeless(err) || retry.After(ctx, err) != nil {
			return r.fail(err)
		}
	}
}

// ask sends one release request, with the next waiter of this client as the heir if
// that may have the lock. again reports that the request has failed for good with an
// heir, and may succeed without one.
func (r *release) ask(ctx context.Context) (v Status, again bool, err error) {
	hd, s, ret := r.hold.holding, r.hold.spec, &r.hold.ret
	e := hd.engine
	var next *heir
	var sent watchdog.Instant
	if r.heirs && !r.maybe && e.awaited(s) {
		if next = e.heir(s, hd.slice); next != nil {
			ret.Heir, sent = &next.req, e.now()
		}
	}
	at := time.Now()
	v, err = e.returnOnce(ctx, hd, s, ret, at)
	if run.Classify(err) == run.Unknown {
		r.maybe, r.acts = true, at.Add(returnBound+run.ClockSlack)
	}
	if next != nil {
		if next.settle(sent, ret, hd.slice, v, err) {
			r.doubted = next
			// It may have been executed once before if it was under way for
			// that long. Otherwise only the server's clock was unknown.
			r.maybe = r.maybe || err == nil && v == PastDeadline && time.Since(at) > returnBound/2
		}
		ret.Heir = nil
		if r.heirs = err == nil && v != PastDeadline; run.Hopeless(err) {
			return v, true, err
		}
	}
	if run.IsCode(err, "TRYAGAIN") {
		// The slot is being moved, and a request with one key succeeds.
		r.kept = r.kept || ret.Label != "" && r.target == 0
		ret.Label = "" // it is removed afterwards
		ret.Alone, r.heirs = true, false
	}
	return v, false, err
}

// done finishes a release that has been executed, with the status v.
func (r *release) done(ctx context.Context, v Status) {
	hd, s, ret := r.hold.holding, r.hold.spec, &r.hold.ret
	e := hd.engine
	if r.target == 0 {
		if hd.handed && ret.Heard > 1 {
			// Other clients have waited for the whole slice. Java among them
			// takes time to react.
			e.lines.HoldBack(s.Line, e.cfg.HandOver+e.cfg.HandOver/2)
		}
		hd.tagged.Store(false)
	}
	if !hd.fresh {
		hd.releaseInDoubt(r.acts) // it must not affect the next hold
	}
	if r.kept || v == NotHolder && ret.Label != "" {
		hd.dropLabel(ctx, s)
	}
	e.labelClosed(ctx, s, ret)
	hd.unlockOps()
	if r.doubted != nil {
		r.doubted.Unknown() // its request may have come before the grant
	}
}

// lost finishes a release that found the lock not to be the holder's.
func (r *release) lost(ctx context.Context) {
	hd := r.hold.holding
	if r.kept || r.hold.ret.Label != "" {
		hd.dropLabel(ctx, r.hold.spec)
	}
	hd.mu.Lock()
	item := hd.item // not the item of a hold that comes right after
	hd.mu.Unlock()
	hd.unlockOps()
	r.hold.markLost(item)
	if r.doubted != nil {
		r.doubted.Unknown() // as in done
	}
}

// fail finishes a release that has failed with err, and returns the error for the
// caller.
func (r *release) fail(err error) error {
	hd := r.hold.holding
	r.hold.mark(unknown)
	if r.target == 0 && !hd.fresh {
		hd.remember(r.hold)
	}
	if r.maybe {
		// The last request may take effect until its deadline. Only a later
		// acquire of the same holder waits for that.
		hd.releaseInDoubt(actsUntil())
		err = inDoubt{err}
	}
	hd.unlockOps()
	return err
}

// returnOnce sends one release request.
func (e *Engine) returnOnce(ctx context.Context, hd *holding, s *Spec, ret *Return, now time.Time) (Status, error) {
	if ret.Deadline = (run.Deadline{}); !hd.fresh || ret.Heir != nil && s.Queue == nil {
		ret.Deadline = e.Clock.Deadline(now, returnBound)
	}
	ret.Returned = Returned{}
	passes := ret.Heir != nil && ret.Heir.Entry == "" // no other client takes part
	var list waitlistChange
	if ret.Unlist = nil; ret.Count == 0 && !ret.Alone && e.gives(s) {
		holder, entry, of := ret.Holder, "", ""
		switch {
		case passes:
			of = ret.Heir.Holder
		case ret.Heir != nil: // whose entry it is, and who removes it after giving up
			holder, entry = ret.Heir.Holder, ret.Heir.Entry
		case ret.Leaves:
			of = ret.Holder
		}
		list = e.waitlist.begin(s.Key, holder, entry, of)
		ret.Unlist, ret.Listens = list.takes, e.notifier.Live(s.Channel)
		if list.again {
			ret.Unlist = append(ret.Unlist, entry)
		}
	}
	once, opts := e.returning(ctx, ret.acked)
	v, err := s.Scripts.Release(once, e, opts, ret)
	ret.short = e.Short(opts.Replicas)
	if !ret.Given {
		e.turn(s, ret.Next)
	}
	e.waitlist.end(&list, ret.unlisted(v, err), now.Add(returnBound+run.ClockSlack))
	return v, err
}

// unlisted returns what a reply shows about the waitlist.
func (r *Return) unlisted(v Status, err error) outcome {
	switch {
	case err != nil && run.Classify(err) != run.Unknown, r.Heir != nil && r.Heir.Entry == "" && !r.Given:
		return listSame
	case err != nil, v == PastDeadline: // an earlier run may have been in time
		return listUnknown
	case r.Listed > 0:
		return listEntered
	}
	return listCleared
}
