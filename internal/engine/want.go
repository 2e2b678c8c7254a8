package engine

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
)

// A Want is something that a caller waits for and that is not a lock: permits,
// or the end of a count. It sends the requests; Until decides when.
type Want interface {
	// Ask sends one request. The request must change nothing if it reaches
	// Redis after d, and nothing more if it is repeated. The status is Granted,
	// Refused or PastDeadline.
	Ask(ctx context.Context, opts run.Options, d run.Deadline) (Answer, error)
	// Got is called when the Want was granted. It returns an error if the grant
	// came too late. After ErrLeaseLost the Want may be requested again, a few
	// times, which starts its leases anew. After any other error it must be
	// undone.
	Got() error
	// Undo takes back what a request without a reply may have been granted. It
	// returns Granted if there was something, Unchanged if there was nothing
	// and will be nothing, and NotHolder if there was nothing yet. It is not
	// called if requests change nothing.
	Undo(ctx context.Context, opts run.Options) (Status, error)
	// Kept returns how long after its deadline a request may be undone; 0 means
	// that requests change nothing.
	Kept() time.Duration
}

// A Group is a Want whose request can include others of its kind.
type Group interface {
	Want
	// AskAll is Ask for the Want and for others after it, in order. served is
	// how many of others, from the first, were granted.
	AskAll(ctx context.Context, opts run.Options, d run.Deadline, others []Want) (ans Answer, served int, err error)
}

// A Sweeper is a Want that a late request of its own could be granted again
// after it has been given back.
type Sweeper interface {
	Want
	// Sweep takes back what was granted after it had been given back.
	Sweep(ctx context.Context, opts run.Options) error
}

// A Successor is a Want that continues after another of its kind, which asked
// for both, has left.
type Successor interface {
	Want
	Succeeds(before Want)
}

// A Guest is a Want that learns whose request admitted it.
type Guest interface {
	Want
	Admitted(by Want)
}

// A Lessee is a Want that is granted leases, each of which ends by itself.
type Lessee interface {
	Want
	// Leases returns the leases granted so far.
	Leases() []*Lease
}

// An Answer is the reply to a Want.
type Answer struct {
	Status  Status
	After   time.Duration // the longest sleep that can be right for callers that have nothing yet; 0 if unknown
	Last    bool          // on a grant: nothing is left
	Earlier bool          // on a grant: only for callers that waited at the last request
}

// Until waits until w is granted. try makes it one attempt, unless cfg sets a
// wait. After an error nothing was granted to w: what a request may have left
// in Redis is undone in the background.
func (e *Engine) Until(ctx context.Context, op string, s *Spec, cfg *LockConfig, try bool, w Want) error {
	if err := s.admit(ctx, cfg); err != nil {
		return e.Wrap(op, s, err)
	}
	defer e.gate.Leave()
	d := &wantAttempt{attempt: newAttempt(ctx, s, cfg), want: w}
	var claim wait.Claim = d
	if _, ok := w.(Group); ok && !e.cfg.Acks.On() { // with replicas, each has a WAIT of its own
		claim = &grouped{d}
	}
	d.bounded = try || cfg.Waits
	err := d.run(ctx, claim)
	for voids := 1; err == nil; voids++ {
		if err = w.Got(); err == nil {
			break
		}
		d.doubt(0)
		if voids == mostVoids || !errors.Is(err, ErrLeaseLost) {
			break
		}
		d.given = false
		err = d.run(ctx, claim) // starts the leases anew
	}
	if err == nil {
		e.granted(d, w)
	}
	var leases []*Lease
	if l, ok := w.(Lessee); ok && err == nil {
		leases = l.Leases()
		e.label(ctx, cfg.Label, e.LeaseTime(cfg), leases...)
	}
	d.report(len(leases), err)
	switch {
	case err == nil && len(leases) == 0:
		d.acquired(nil)
	case err == nil:
		for _, l := range leases {
			d.acquired(l)
		}
	}
	if err != nil {
		if d.inDoubt {
			e.takeBack(d)
		}
		if err = d.taken(err); d.inDoubt {
			err = inDoubt{err}
		}
		return e.Wrap(op, s, err)
	}
	if sw, ok := w.(Sweeper); ok && d.doubts > 0 {
		e.sweep(sw, d.until)
	}
	return nil
}

// sweep calls w.Sweep in the background until w's requests can take effect no
// more.
func (e *Engine) sweep(w Sweeper, until time.Time) {
	e.cleanup.Later(func(ctx context.Context) bool {
		past := time.Now().After(until)
		err := w.Sweep(run.Within(ctx, returnBound), run.CleanUp)
		return past && (err == nil || time.Now().After(until.Add(w.Kept())))
	}, func() {})
}

// A wantAttempt is an attempt to be granted a Want. It is a wait.Claim.
type wantAttempt struct {
	attempt
	want  Want
	given bool // by another caller of this client; see HandOn
}

func (d *wantAttempt) run(ctx context.Context, claim wait.Claim) error {
	if d.bounded && d.cfg.Wait <= 0 {
		return d.once(ctx, d)
	}
	d.begin()
	defer d.stop()
	p := d.policy()
	err := d.spec.engine.lines.Until(ctx, d.spec.Line, claim, &p)
	if errors.Is(err, wait.ErrOver) {
		return d.timeUp()
	}
	return err
}

// Succeeds passes what the previous head has learned to the want of d.
func (d *wantAttempt) Succeeds(head wait.Claim) {
	if s, ok := d.want.(Successor); ok {
		s.Succeeds(head.(*wantAttempt).want)
	}
}

// Admitted tells the want of d whose request admitted it.
func (d *wantAttempt) Admitted(by wait.Claim) {
	if g, ok := d.want.(Guest); ok {
		g.Admitted(by.(*wantAttempt).want)
	}
}

// Try asks once.
func (d *wantAttempt) Try(ctx context.Context) (wait.Answer, error) {
	ans, _, _, err := d.try(ctx, nil)
	return ans, err
}

// try asks once, for d and for others of its kind.
func (d *wantAttempt) try(ctx context.Context, others []Want) (ans wait.Answer, served int, settled bool, err error) {
	e, caller := d.spec.engine, ctx
	if at, ok := d.deadline(); ok {
		// The wait bounds the request, like the caller's context.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	opts := run.Options{Within: d.patiently(), Replicas: run.Confirmed(e.cfg.Acks.On() && d.want.Kept() > 0)}
	bound := d.bound(ctx, opts.Within)
	asked := time.Now()
	var got Answer
	if len(others) > 0 {
		got, served, err = d.want.(Group).AskAll(ctx, opts, e.deadline(bound), others)
	} else {
		got, err = d.want.Ask(ctx, opts, e.deadline(bound))
	}
	if err != nil {
		switch {
		case run.Classify(err) != run.Unknown:
			settled = true
		case d.want.Kept() > 0:
			d.doubt(bound)
		}
		if ctx.Err() != nil && caller.Err() == nil {
			return wait.Answer{}, 0, settled, run.Both(ErrNotAcquired, errNoAnswer)
		}
		ans, err = d.failed(caller, asked, err)
		return ans, 0, settled, err
	}
	d.failing, d.backoff = time.Time{}, 0
	e.answers()
	switch got.Status {
	case Granted:
		if short := e.Short(opts.Replicas); short != nil {
			return wait.Answer{}, 0, true, d.unreplicated(short)
		}
		if d.want.Kept() > 0 && d.outdated(asked) {
			d.doubt(0)
			return wait.Answer{Again: reloadTime}, 0, false, nil
		}
		d.inDoubt = false
		return wait.Answer{Granted: true, After: got.After, Last: got.Last, Earlier: got.Earlier}, served, true, nil
	case PastDeadline:
		ans, err = d.failure(asked, run.ErrLate)
		return ans, 0, true, err
	}
	d.confirming = false
	d.refused, d.left = true, got.After
	return wait.Answer{After: got.After}, 0, true, nil
}

// grouped is a wantAttempt whose requests can include those behind it, and that
// others can include in theirs.
type grouped struct{ *wantAttempt }

// TryAll asks for g and for others.
func (g *grouped) TryAll(ctx context.Context, others []wait.Member) (wait.Answer, int, bool, error) {
	wants := make([]Want, len(others))
	for i, m := range others {
		wants[i] = m.(*grouped).want
	}
	return g.try(ctx, wants)
}

// Enlist includes g in another caller's request: from now on it may have been
// granted.
func (g *grouped) Enlist() bool {
	g.doubt(run.Attempt)
	return true
}

// Served notes that the request granted g.
func (g *grouped) Served() {
	g.doubts--
	g.inDoubt = false
}

// Refused notes that the request did not grant g. An earlier request may still
// be on its way.
func (g *grouped) Refused() {
	g.doubts--
	g.inDoubt = g.doubts > 0
}

// takeBack undoes, in the background, what a failed attempt may have been
// granted; its caller has gone. A reply of nothing yet proves nothing before
// the deadline of the last request.
func (e *Engine) takeBack(d *wantAttempt) {
	try := func(ctx context.Context) bool { return e.tookBack(ctx, d) }
	if _, ok := d.want.(Lessee); ok && !d.cfg.Permanent {
		e.cleanup.Later(try, func() {}) // its undo is not final with the first reply
		return
	}
	e.cleanup.LaterSurely(d.spec, try)
}

// tookBack makes one try and reports whether no other is needed.
func (e *Engine) tookBack(ctx context.Context, d *wantAttempt) bool {
	past := time.Now().After(d.until)
	v, err := d.want.Undo(run.Within(ctx, returnBound), run.CleanUp)
	switch {
	case err != nil: // even after a permanent error: rights may come back, whereas permits do not by themselves
		return time.Now().After(d.until.Add(d.want.Kept()))
	case v == Granted:
		e.tookBackOne(d.spec)
		// Another of its requests may still be on its way.
		return past || d.doubts == 1
	}
	return past || v == Unchanged
}

// Change calls f, which sends a request that changes something for s, until it
// gets a reply. It repeats f after temporary errors. The request must do
// nothing if it reaches Redis after d, in which case f returns PastDeadline,
// and nothing more if it is repeated.
func (e *Engine) Change(ctx context.Context, op string, s *Spec, f func(ctx context.Context, opts run.Options, d run.Deadline) (Status, error)) error {
	if err := s.admit(ctx, &plain); err != nil {
		return e.Wrap(op, s, err)
	}
	defer e.gate.Leave()
	return e.Wrap(op, s, e.change(ctx, e.cfg.AnswerTimeout, func(r *run.Retrier) (Status, error) { return f(ctx, r.Options(), e.deadline(run.Attempt)) }))
}

// Return is Change for a request that gives something back: it continues after
// ctx is cancelled, for at most the unlock timeout.
func (e *Engine) Return(ctx context.Context, op string, s *Spec, f func(ctx context.Context, opts run.Options, d run.Deadline) (Status, error)) error {
	if s.err != nil {
		return e.Wrap(op, s, s.err)
	}
	if !e.gate.Enter() {
		return e.Wrap(op, s, run.ErrClosed)
	}
	defer e.gate.Leave()
	return e.Wrap(op, s, e.returned(ctx, f))
}

// returned is Return for a caller that is counted in at the gate, or after the
// gate is shut.
func (e *Engine) returned(ctx context.Context, f func(ctx context.Context, opts run.Options, d run.Deadline) (Status, error)) error {
	bounded := run.Detached(ctx, e.cfg.UnlockTimeout)
	var short error
	err := e.change(bounded, e.cfg.UnlockTimeout, func(*run.Retrier) (Status, error) {
		once, opts := e.returning(bounded, e.cfg.Acks.Releases)
		v, err := f(once, opts, e.deadline(returnBound))
		short = e.Short(opts.Replicas)
		return v, err
	})
	if err == nil {
		err = short
	}
	return err
}

func (e *Engine) change(ctx context.Context, patience time.Duration, f func(r *run.Retrier) (Status, error)) error {
	maybe := false
	var said error // the server's last error reply
	retry := e.NewRetrier(patience)
	for {
		v, err := f(&retry)
		var reply redis.Error
		if errors.As(err, &reply) {
			said = err
		}
		switch {
		case err == nil && v != PastDeadline:
			return nil
		case err == nil:
			err = run.ErrLate
		case run.Classify(err) == run.Unknown:
			maybe = true
		}
		if run.Hopeless(err) || ctx.Err() != nil || errors.Is(err, run.ErrClosed) || retry.After(ctx, err) != nil {
			if said != nil && !errors.As(err, &reply) {
				err = run.Both(err, said) // the remaining time was too short for a reply
			}
			if maybe {
				err = inDoubt{err}
			}
			return err
		}
	}
}
