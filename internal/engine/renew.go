package engine

import (
	"context"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A kept is the Subject of the watchdog's items.
type kept interface {
	watchdog.Subject
	holder
	// renewal returns the request that keeps it, or a nil Spec if it was given
	// back.
	renewal(lease time.Duration) (*Spec, Renewal)
	// mainKey returns the key that determines its server.
	mainKey() string
}

// A renewing is the memory for the renewal of a batch. It is reused.
type renewing struct {
	specs []*Spec // nil: given back meanwhile
	asked []Renewal
}

var renewings = sync.Pool{New: func() any { return new(renewing) }}

// over returns g for reuse.
func (g *renewing) over() {
	clear(g.specs)
	clear(g.asked)
	g.specs, g.asked = g.specs[:0], g.asked[:0]
	renewings.Put(g)
}

// renew is the watchdog's Renew function.
func (e *Engine) renew(ctx context.Context, _ string, batch []watchdog.Renewal) []watchdog.Result {
	g := renewings.Get().(*renewing)
	defer g.over()
	var scripts Renewer
	renewals := uint64(0)
	for i := range batch {
		r := &batch[i]
		s, item := r.Item.Subject.(kept).renewal(r.Lease)
		g.specs = append(g.specs, s)
		if s == nil {
			continue
		}
		scripts = s.Renewer
		g.asked = append(g.asked, item)
		if !r.Look {
			renewals++
		}
	}
	if len(g.asked) == 0 {
		return make([]watchdog.Result, len(batch))
	}
	e.counters.renewals.Add(renewals)
	acks := renewals > 0 && e.cfg.Acks.Renewals // looks change nothing that replicas could confirm
	results, err := e.renewAll(ctx, run.CleanUp, scripts, g.asked, acks)
	if len(results) < len(batch) {
		got := results
		results = make([]watchdog.Result, len(batch))
		for i, s := range g.specs {
			if s != nil && len(got) > 0 {
				results[i], got = got[0], got[1:]
			}
		}
	}
	e.reportRenewals(batch, g.specs, results, err)
	return results
}

// renewAll renews a batch with one script, or, if that is impossible, with one
// script for each lock: while a slot is being moved, or behind a proxy that
// only looks like one server.
func (e *Engine) renewAll(ctx context.Context, opts run.Options, s Renewer, batch []Renewal, acks bool) ([]watchdog.Result, error) {
	got, err := e.renewOnce(ctx, opts, s, batch, acks)
	if got == nil && err == nil { // too late by the server's clock, which is known now
		got, err = e.renewOnce(ctx, opts, s, batch, acks)
	}
	if len(batch) == 1 && batch[0].Label != "" && run.IsCode(err, "TRYAGAIN") {
		// The slot is being moved, and the lock and its label are at different
		// nodes.
		batch[0].Label = ""
		return e.renewAll(ctx, opts, s, batch, acks)
	}
	if len(batch) == 1 || (!run.IsCode(err, "TRYAGAIN") && !run.IsCode(err, "CROSSSLOT")) {
		return got, err
	}
	got = make([]watchdog.Result, len(batch))
	for i := range batch {
		one, oneErr := e.renewAll(ctx, opts, s, batch[i:i+1], acks)
		if oneErr != nil {
			err = oneErr
		} else if len(one) == 1 {
			got[i] = one[0]
		}
		if ctx.Err() != nil {
			break
		}
	}
	return got, err
}

// renewOnce sends one renewal request. With acks, a renewal that too few
// replicas have confirmed counts as failed: its holder would trust the hold for
// longer than they know of.
func (e *Engine) renewOnce(ctx context.Context, opts run.Options, s Renewer, batch []Renewal, acks bool) ([]watchdog.Result, error) {
	opts.Replicas = run.Confirmed(acks)
	got, err := s.Renew(ctx, e, opts, batch, e.deadline(run.Attempt))
	if err != nil || got == nil {
		return got, err
	}
	if err = e.Short(opts.Replicas); err != nil {
		for i, r := range got {
			if r == watchdog.Extended {
				got[i] = watchdog.Failed
			}
		}
	}
	return got, err
}

// renewal returns the request that keeps hd, or a nil Spec if it was given
// back.
func (hd *holding) renewal(lease time.Duration) (*Spec, Renewal) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if len(hd.holds) == 0 {
		return nil, Renewal{}
	}
	for _, h := range hd.holds {
		if h.forsaken || !h.origin.leaks() {
			continue
		}
		giveBack := h.Unlock
		if w, ok := h.whole.(Held); ok { // with all its parts, also those that came later
			giveBack = w.Unlock
		}
		hd.engine.leaked(h.spec, hd.field, h.origin, h.since, giveBack)
	}
	s := hd.holds[0].spec
	return s, Renewal{Key: s.Key, Holder: hd.field, Count: hd.count, Lease: lease, Label: hd.label}
}

// labelled returns the label of the holds.
func (hd *holding) labelled() string {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	return hd.label
}

func (e *Engine) reportRenewals(batch []watchdog.Renewal, specs []*Spec, results []watchdog.Result, err error) {
	renewed, failed, event := e.cfg.Hooks.Renewed, e.cfg.Hooks.RenewFailed, e.cfg.Event
	if err != nil {
		e.cfg.Logger.Warn("latchkey: a renewal failed and will be tried again", "locks", len(batch), "err", err)
	}
	if renewed == nil && failed == nil && event == nil {
		return
	}
	for i, s := range specs {
		r := &batch[i]
		switch {
		case s == nil || r.Look:
		case results[i] == watchdog.Extended:
			if renewed != nil {
				renewed(s.Kind, s.Name, r.Late)
			}
			if event != nil && r.Left < r.Lease/3 { // it was due at two thirds
				event(e.event(Event{What: Late, Wait: r.Lease*2/3 - r.Left}, s, r.Item.Subject.(kept)))
			}
		case results[i] == watchdog.Failed && failed != nil:
			failed(s.Kind, s.Name, err)
		}
	}
}
