package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A Leaser runs the scripts of things that are leased one by one and have no
// hold count.
type Leaser interface {
	Renewer
	// Free gives back those of ids that are out; all makes it all or none. It
	// returns, for each, whether it was out. No id is ever given out twice, so it
	// may come late, or twice.
	Free(ctx context.Context, e *Engine, opts run.Options, ids []string, all bool) (out []bool, err error)
}

// A Lease is one such thing, from grant to release or loss.
type Lease struct {
	engine *Engine
	spec   *Spec
	id     string
	cfg    LockConfig
	parent context.Context // of Context: the acquire's own
	since  time.Time

	// mu guards the fields below.
	mu        sync.Mutex
	item      *watchdog.Item // nil for what is permanent
	state     state
	cause     error // with which ctx ended
	ctx       context.Context
	cancel    context.CancelCauseFunc
	gone      chan struct{} // behind Lost; made on demand
	returning bool          // it is being given back
	missing   bool          // it was found gone meanwhile
	written   chan struct{} // closed when its label was written; nil without one
	asked     bool          // Redis has been asked to take it back, or said that it is gone
}

// Lease records that the thing id of s was leased, by a request sent at a given
// moment, for the time that the request asked for (0: for ever), and puts it
// under the watchdog's care. It returns nil when the lease was over before its
// answer came.
func (e *Engine) Lease(parent context.Context, s *Spec, id string, cfg *LockConfig, sent watchdog.Instant, lease time.Duration) *Lease {
	l := &Lease{engine: e, spec: s, id: id, cfg: *cfg, parent: parent, since: time.Now()}
	// In the table first: from Add on, it may be lost.
	ls := &e.leases
	ls.mu.Lock()
	select {
	case <-e.gate.Closed():
		ls.mu.Unlock()
		return nil // Close has looked into the table, or will find it too late
	default:
	}
	ls.m[leaseKey{s.Key, id}] = l
	ls.mu.Unlock()
	l.mu.Lock()
	ok := l.watchLocked(sent, lease)
	l.mu.Unlock()
	if !ok {
		l.leave()
		return nil
	}
	return l
}

// watchLocked puts l under the watchdog's care.
func (l *Lease) watchLocked(sent watchdog.Instant, lease time.Duration) bool {
	if lease == 0 {
		l.item = nil
		return true
	}
	l.item = &watchdog.Item{Group: l.spec.group, Subject: leased{l}}
	return l.engine.watchdog.Add(l.item, watchdog.NewWindow(sent, lease), l.planLocked())
}

// leave takes l from the table.
func (l *Lease) leave() {
	ls := &l.engine.leases
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if k := (leaseKey{l.spec.Key, l.id}); ls.m[k] == l {
		delete(ls.m, k)
	}
}

// Instant returns the present moment, from which the window of a lease counts
// that is asked for now.
func (e *Engine) Instant() watchdog.Instant { return e.now() }

// LeaseTime returns the lease to ask for under cfg; 0 for a permanent one.
func (e *Engine) LeaseTime(cfg *LockConfig) time.Duration {
	if cfg.Permanent {
		return 0
	}
	return e.lease(cfg)
}

// ID returns the id of the thing.
func (l *Lease) ID() string { return l.id }

// Context returns a context that ends with the lease; see Hold.Context.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(l.parent)
		if l.state != held {
			l.cancel(l.cause)
		}
	}
	return l.ctx
}

// Lost returns a channel that is closed when the lease is lost.
func (l *Lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == nil {
		l.gone = make(chan struct{})
		if l.state == lost {
			close(l.gone)
		}
	}
	return l.gone
}

// Remaining returns how long the lease may still be believed in.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state != held:
		return 0
	case l.item == nil:
		return math.MaxInt64
	}
	return l.engine.watchdog.Remaining(l.item)
}

// end ends l if it is held. why is the reason of a loss.
func (l *Lease) end(st state, cause error, why LossReason) bool {
	l.mu.Lock()
	if l.state != held {
		l.mu.Unlock()
		return false
	}
	if l.item != nil {
		l.engine.watchdog.Remove(l.item)
	}
	l.state, l.cause = st, cause
	if l.cancel != nil {
		l.cancel(cause)
	}
	if st == lost && l.gone != nil {
		close(l.gone)
	}
	l.mu.Unlock()
	l.leave()
	switch st {
	case lost:
		l.engine.lost(l.spec, l.since, why)
	case closed:
		l.engine.cfg.Hooks.released(l.spec, l.since)
	}
	return true
}

// expiry says why the lease has expired.
func (l *Lease) expiry() LossReason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return expiry(l.planLocked())
}

// planLocked says how the watchdog keeps the lease.
func (l *Lease) planLocked() (plan watchdog.Plan) {
	if l.cfg.Lease == 0 {
		plan.Lease = l.engine.cfg.WatchdogTimeout
		if l.cfg.MaxHold > 0 {
			plan.Max = max(l.cfg.MaxHold-time.Since(l.since), 1)
		}
	}
	return plan
}

// leased is what the watchdog sees of a Lease, whose Lost is taken.
type leased struct{ *Lease }

// Lost ends the lease, unless it is being given back: then that decides.
func (l leased) Lost(it *watchdog.Item, r watchdog.Reason) {
	why := LossTaken
	if r == watchdog.WindowOver {
		why = l.expiry()
	}
	l.mu.Lock()
	if l.item != it {
		l.mu.Unlock()
		return // it has been let anew meanwhile
	}
	if l.returning {
		l.missing = true
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.end(lost, ErrLeaseLost, why)
}

func (l leased) renewal(lease time.Duration) (*Spec, Renewal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != held {
		return nil, Renewal{}
	}
	return l.spec, Renewal{Key: l.spec.Key, Holder: l.id, Lease: lease, Label: l.cfg.Label}
}

// stateErr says why l is not held, nil when it is.
func (l *Lease) stateErr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case held:
		return nil
	case lost:
		return errLost
	case closed:
		return run.ErrClosed
	}
	return ErrNotHeld
}

// Return gives l back; see Hold.Unlock.
func (l *Lease) Return(ctx context.Context) error {
	e, s := l.engine, l.spec
	if !e.gate.Enter() {
		err := l.stateErr()
		if !errors.Is(err, ErrLeaseLost) {
			err = run.ErrClosed
		}
		return e.Wrap("release", s, err)
	}
	defer e.gate.Leave()
	if l.Remaining() == 0 && l.stateErr() == nil {
		// The window is over and the watchdog has not come to say so.
		l.end(lost, ErrLeaseLost, l.expiry())
	}
	l.setReturning(true)
	defer l.setReturning(false)
	maybe, again := false, false
	if !l.end(released, context.Canceled, "") {
		// Again after an answer that never came?
		l.mu.Lock()
		maybe = l.state == unknown
		l.mu.Unlock()
		if !maybe {
			l.giveUpRest(ctx)
			return e.Wrap("release", s, l.stateErr())
		}
		again = true
	}
	found := false
	err := e.returned(ctx, func(ctx context.Context, opts run.Options, _ run.Deadline) (Status, error) {
		out, err := s.Renewer.(Leaser).Free(ctx, e, opts, []string{l.id}, true)
		if run.Classify(err) == run.Unknown {
			maybe = true
		}
		found = err == nil && out[0]
		return Granted, err
	})
	l.mu.Lock()
	switch {
	case !Done(err):
		l.state = unknown
	case found || maybe:
		l.state = released
	default: // Redis did not know of it any more
		l.state, err, l.asked = lost, errLost, true
		if l.gone != nil {
			close(l.gone)
		}
	}
	st := l.state
	l.mu.Unlock()
	if st != unknown {
		e.dropLabels(run.Detached(ctx, e.cfg.UnlockTimeout), l)
	}
	switch {
	case st == lost:
		e.lost(s, l.since, LossTaken)
	case !again:
		e.cfg.Hooks.released(s, l.since) // once, whatever Redis says
	}
	return e.Wrap("release", s, err)
}

// giveUpRest gives back, once, what Redis may still have of l, if it was lost; see
// that of a Hold.
func (l *Lease) giveUpRest(ctx context.Context) {
	l.mu.Lock()
	asks := l.state == lost && !l.asked
	l.asked = l.asked || asks
	l.mu.Unlock()
	if !asks {
		return
	}
	once := run.Detached(ctx, min(returnBound, l.engine.cfg.UnlockTimeout))
	// Where Redis does not hear of it, the lease ends it.
	if out, err := l.spec.Renewer.(Leaser).Free(once, l.engine, run.CleanUp, []string{l.id}, true); err == nil && out[0] {
		l.engine.dropLabels(once, l)
	}
}

func (l *Lease) setReturning(on bool) {
	l.mu.Lock()
	l.returning = on
	l.mu.Unlock()
}

// Ended reports whether l is not held any more, and nobody is at giving it back.
func (l *Lease) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != held && !l.returning
}

// Drop ends a lease that nobody has been told of.
func (l *Lease) Drop() { l.end(released, context.Canceled, "") }

// Extend makes the lease last for at least d from now, as far as MaxHold lets it.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	e, s := l.engine, l.spec
	if err := CheckLease("a lease", d); err != nil {
		return e.Wrap("extend", s, err)
	}
	if !e.gate.Enter() {
		return e.Wrap("extend", s, run.ErrClosed)
	}
	defer e.gate.Leave()
	l.mu.Lock()
	about := l.item // nil if it is permanent; another one when it is relet meanwhile
	l.mu.Unlock()
	if err := l.stateErr(); err != nil {
		return e.Wrap("extend", s, err)
	}
	wanted := d.Truncate(time.Millisecond)
	if err := ctx.Err(); err != nil {
		return e.Wrap("extend", s, err)
	}
	maybe := false // a request without an answer may have been carried out
	retry := e.NewRetrier(e.cfg.AnswerTimeout)
	for {
		sent := e.now()
		d, err := l.withinMaxHold(wanted)
		if err != nil {
			if maybe {
				err = inDoubt{err}
			}
			return e.Wrap("extend", s, err)
		}
		results, err := e.renewOnce(ctx, retry.Options(), s.Renewer, []Renewal{{Key: s.Key, Holder: l.id, Lease: d, Label: l.cfg.Label}}, e.cfg.Acks.Renewals)
		switch {
		case err != nil || results == nil || results[0] == watchdog.Failed:
			maybe = maybe || results == nil && run.Classify(err) == run.Unknown
			if err := retry.After(ctx, err); err != nil {
				if maybe {
					err = inDoubt{err}
				}
				return e.Wrap("extend", s, err)
			}
		case results[0] == watchdog.NotOurs:
			l.end(lost, ErrLeaseLost, LossTaken)
			return e.Wrap("extend", s, errLost)
		default:
			l.mu.Lock()
			if l.item != nil && l.item == about {
				e.watchdog.Prolong(l.item, watchdog.NewWindow(sent, d))
			}
			l.mu.Unlock()
			return e.Wrap("extend", s, l.stateErr())
		}
	}
}

// withinMaxHold cuts a lease that Extend is to ask for to what MaxHold leaves.
func (l *Lease) withinMaxHold(d time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.MaxHold == 0 {
		return d, nil
	}
	return l.cfg.Within(d, l.cfg.MaxHold-time.Since(l.since))
}

// Returning notes that the things of those ids are about to be given back by
// whoever knows the ids, whether they are this client's or not. The function it
// returns must be called when that has been done or has failed.
func (e *Engine) Returning(ctx context.Context, s *Spec, ids []string) (ended func(done bool)) {
	var mine []*Lease
	ls := &e.leases
	ls.mu.Lock()
	for _, id := range ids {
		if l := ls.m[leaseKey{s.Key, id}]; l != nil {
			mine = append(mine, l)
		}
	}
	ls.mu.Unlock()
	for _, l := range mine {
		l.setReturning(true)
	}
	return func(done bool) {
		for _, l := range mine {
			l.mu.Lock()
			missing := l.missing
			l.returning, l.missing = false, false
			l.mu.Unlock()
			switch {
			case done:
				if l.end(released, context.Canceled, "") {
					e.cfg.Hooks.released(s, l.since)
				}
			case missing:
				l.end(lost, ErrLeaseLost, LossTaken)
			}
		}
		if done {
			e.dropLabels(run.Detached(ctx, e.cfg.UnlockTimeout), mine...)
		}
	}
}

// Relet notes that the thing of that id has got another lease, by a request sent
// at a given moment: d, which is not renewed, or 0 for ever. Its label ends with the
// new lease, or, where that has no end, with the one before it.
func (e *Engine) Relet(ctx context.Context, s *Spec, id string, sent watchdog.Instant, d time.Duration) {
	ls := &e.leases
	ls.mu.Lock()
	l := ls.m[leaseKey{s.Key, id}]
	ls.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.state != held || l.item != nil && !e.watchdog.Remove(l.item) {
		l.mu.Unlock()
		return // ended, or lost and about to be told so
	}
	l.cfg.Lease, l.cfg.Permanent, l.cfg.MaxHold = d, d == 0, 0
	ok := l.watchLocked(sent, d)
	l.mu.Unlock()
	if !ok {
		l.end(lost, ErrLeaseLost, LossLimit)
		return
	}
	if d > 0 {
		e.label(ctx, l.cfg.Label, d, l)
	}
}
