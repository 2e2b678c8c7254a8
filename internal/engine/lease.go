package engine

import (
	"context"
	"encoding/hex"
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
	// Free gives back those of ids that are out; with all, either all of them
	// or none. It returns for each whether it was out. No id is used twice, so
	// a request may arrive late, or twice. labelled is set if one of them may have
	// a label, which goes with it.
	Free(ctx context.Context, e *Engine, opts run.Options, ids []string, all, labelled bool) (out []bool, err error)
}

// A Lease is one such thing, from grant to release or loss.
type Lease struct {
	engine *Engine
	spec   *Spec
	id     string
	cfg    LockConfig
	parent context.Context // of Context: the acquire's
	since  time.Time

	// mu guards the fields below.
	mu        sync.Mutex
	item      *watchdog.Item // nil if it is permanent
	state     state
	cause     error // the cause with which ctx ended
	ctx       context.Context
	cancel    context.CancelCauseFunc
	gone      chan struct{} // the channel of Lost; made on demand
	returning bool          // a release is under way
	missing   bool          // it was found gone during that release
	written   chan struct{} // closed when its label was written; nil without one
	origin    *Origin       // nil if it is not wanted
	asked     bool          // Redis was asked to take it back, or reported that it is gone
}

// Lease records the lease of thing id of s, granted by a request that was sent
// at sent with that lease (0: permanent), and adds it to the watchdog. It
// returns nil if the lease was over before its reply came.
func (e *Engine) Lease(parent context.Context, s *Spec, id string, cfg *LockConfig, sent watchdog.Instant, lease time.Duration) *Lease {
	l := &Lease{engine: e, spec: s, id: id, cfg: *cfg, parent: parent, since: time.Now()}
	// The table comes first, because the lease may be lost as soon as it is
	// added.
	ls := &e.leases
	ls.mu.Lock()
	select {
	case <-e.gate.Closed():
		ls.mu.Unlock()
		return nil // Close has read the table, or will read it too late
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

// watchLocked adds l to the watchdog.
func (l *Lease) watchLocked(sent watchdog.Instant, lease time.Duration) bool {
	if lease == 0 {
		l.item = nil
		return true
	}
	l.item = &watchdog.Item{Group: l.spec.group, Subject: leased{l}}
	return l.engine.watchdog.Add(l.item, watchdog.NewWindow(sent, lease), l.planLocked())
}

// leave removes l from the table.
func (l *Lease) leave() {
	ls := &l.engine.leases
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if k := (leaseKey{l.spec.Key, l.id}); ls.m[k] == l {
		delete(ls.m, k)
	}
}

// Instant returns the present moment, at which the window of a lease begins
// that is requested now.
func (e *Engine) Instant() watchdog.Instant { return e.now() }

// LeaseTime returns the lease to request under cfg, or 0 for a permanent one.
func (e *Engine) LeaseTime(cfg *LockConfig) time.Duration {
	if cfg.Permanent {
		return 0
	}
	return e.lease(cfg)
}

// Leash notes where l was acquired and returns a leash for its Permit, if that is wanted.
func (l *Lease) Leash() *Leash {
	if l.engine.cfg.Leaks == 0 {
		return nil
	}
	o := l.engine.newOrigin(true)
	l.mu.Lock()
	l.origin = o
	l.mu.Unlock()
	return NewLeash(o)
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

// Remaining returns how long the lease may still be trusted.
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

// end ends l if it is held, and reports whether it was. why is the reason of a
// loss.
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
		l.engine.lost(l, why)
	case closed:
		l.engine.released(l)
	}
	return true
}

// expiry returns why the lease has expired.
func (l *Lease) expiry() LossReason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return expiry(l.planLocked())
}

// planLocked returns the watchdog's plan for the lease.
func (l *Lease) planLocked() (plan watchdog.Plan) {
	if l.cfg.Lease == 0 {
		plan.Lease = l.engine.cfg.WatchdogTimeout
		if l.cfg.MaxHold > 0 {
			plan.Max = max(l.cfg.MaxHold-time.Since(l.since), 1)
		}
	}
	return plan
}

// leased is a Lease as the watchdog sees it, because Lease already has a method
// Lost.
type leased struct{ *Lease }

// Lost ends the lease, unless a release is under way, whose result decides.
func (l leased) Lost(it *watchdog.Item, r watchdog.Reason) {
	why := LossTaken
	if r == watchdog.WindowOver {
		why = l.expiry()
	}
	l.mu.Lock()
	if l.item != it {
		l.mu.Unlock()
		return // the lease has been changed meanwhile
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
	if l.origin.leaks() {
		l.engine.leaked(l.spec, hex.EncodeToString([]byte(l.id)), l.origin, l.since, l.Return)
	}
	return l.spec, Renewal{Key: l.spec.Key, Holder: l.id, Lease: lease, Label: l.cfg.Label}
}

// stateErr returns why l is not held, or nil if it is.
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
		// The window is over and the watchdog has not reported it yet.
		l.end(lost, ErrLeaseLost, l.expiry())
	}
	l.setReturning(true)
	defer l.setReturning(false)
	maybe, again := false, false
	if !l.end(released, context.Canceled, "") {
		// Was an earlier release left without a reply?
		l.mu.Lock()
		maybe = l.state == unknown
		l.mu.Unlock()
		if !maybe {
			l.giveUpRest(ctx)
			return e.Wrap("release", s, l.stateErr())
		}
		again = true
	}
	labelled := l.labelled()
	found := false
	err := e.returned(ctx, func(ctx context.Context, opts run.Options, _ run.Deadline) (Status, error) {
		out, err := s.Renewer.(Leaser).Free(ctx, e, opts, []string{l.id}, true, labelled)
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
	default: // Redis does not know it any more
		l.state, err, l.asked = lost, errLost, true
		if l.gone != nil {
			close(l.gone)
		}
	}
	st := l.state
	l.mu.Unlock()
	switch {
	case st == lost:
		e.lost(l, LossTaken)
	case !again:
		e.released(l) // once, whatever Redis replies
	}
	return e.Wrap("release", s, err)
}

// giveUpRest gives back, once, what Redis may still have of l after a loss; see
// Hold.giveUpRest.
func (l *Lease) giveUpRest(ctx context.Context) {
	l.mu.Lock()
	asks := l.state == lost && !l.asked
	l.asked = l.asked || asks
	l.mu.Unlock()
	if !asks {
		return
	}
	once := run.Detached(ctx, min(returnBound, l.engine.cfg.UnlockTimeout))
	// If the request fails, the lease ends it.
	_, _ = l.spec.Renewer.(Leaser).Free(once, l.engine, run.CleanUp, []string{l.id}, true, l.labelled())
}

func (l *Lease) setReturning(on bool) {
	l.mu.Lock()
	l.returning = on
	l.mu.Unlock()
}

// Ended reports whether l is no longer held and no release is under way.
func (l *Lease) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != held && !l.returning
}

// Drop ends a lease that no caller knows of.
func (l *Lease) Drop() { l.end(released, context.Canceled, "") }

// Extend makes the lease last for at least d from now, as far as MaxHold
// allows.
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
	about := l.item // nil if permanent; another item if the lease is changed meanwhile
	l.mu.Unlock()
	if err := l.stateErr(); err != nil {
		return e.Wrap("extend", s, err)
	}
	wanted := d.Truncate(time.Millisecond)
	if err := ctx.Err(); err != nil {
		return e.Wrap("extend", s, err)
	}
	maybe := false // a request without a reply may have been executed
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

// withinMaxHold shortens a lease for Extend to what MaxHold allows.
func (l *Lease) withinMaxHold(d time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.MaxHold == 0 {
		return d, nil
	}
	return l.cfg.Within(d, l.cfg.MaxHold-time.Since(l.since))
}

// Returning notes that the things with those ids are about to be given back by
// their ids, whether they are this client's or not. ended must be called when
// that has succeeded or failed.
func (e *Engine) Returning(s *Spec, ids []string) (ended func(done bool)) {
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
		l.labelled()
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
					e.released(l)
				}
			case missing:
				l.end(lost, ErrLeaseLost, LossTaken)
			}
		}
	}
}

// Relet notes that the thing with that id has got another lease, by a request
// that was sent at sent: d, which is not renewed, or 0 for a permanent one.
func (e *Engine) Relet(s *Spec, id string, sent watchdog.Instant, d time.Duration) {
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
		return // ended, or lost and about to be reported
	}
	l.cfg.Lease, l.cfg.Permanent, l.cfg.MaxHold = d, d == 0, 0
	ok := l.watchLocked(sent, d)
	l.mu.Unlock()
	if !ok {
		l.end(lost, ErrLeaseLost, LossLimit)
	}
}
