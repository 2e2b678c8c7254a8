package elect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/rlock"
)

// The causes with which the context of a term ends, as context.Cause returns them. If
// the lease was lost, the cause is [latchkey.ErrLeaseLost].
var (
	// ErrResigned is the cause if Resign has ended the term.
	ErrResigned = errors.New("the leader has resigned")
	// ErrTransferred is the cause if Transfer has ended the term.
	ErrTransferred = errors.New("the lead was transferred")
)

// Errors of the methods of an Election. Compare with errors.Is.
var (
	// ErrNotLeader is the error of Resign and Transfer if this candidate does not lead.
	ErrNotLeader = errors.New("this candidate does not lead")
	// ErrNoCandidate is the error of Transfer if nobody with that identity has answered.
	ErrNoCandidate = errors.New("no such candidate has answered")
	// ErrRunning is the error of a second Run of an Election at a time.
	ErrRunning = errors.New("this candidate runs already")
)

var (
	errReturned = errors.New("the leader has returned") // the cause of a term whose function returned
	errStale    = errors.New("a later term has begun")
)

// An Election is one candidate's part in an election: it can stand, or only look who
// leads. It is safe for concurrent use.
type Election struct {
	engine  *engine.Engine
	scripts *scripts
	lock    *rlock.Lock
	cfg     config

	mu      sync.Mutex
	running bool
	term    *tenure // nil while it does not lead
}

// New returns a candidate's part in the election with the given name. It does no I/O,
// and does not stand: Run does. It panics if c is nil, the name is empty, or an option
// is invalid.
func New(c *latchkey.Client, name string, opts ...Option) *Election {
	if c == nil {
		panic("elect: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("elect: New: %v", err))
	}
	cfg := config{identity: defaultIdentity()}
	for _, o := range opts {
		o.apply(&cfg)
	}
	if cfg.wrong != nil {
		panic(fmt.Sprintf("elect: New: %v", cfg.wrong))
	}
	s := newScripts(c, name)
	var locks latchkey.Client
	engine.Unprefixed(&locks, c)
	return &Election{engine: s.engine, scripts: s, lock: rlock.New(&locks, s.lock, rlock.Fenced()), cfg: cfg}
}

// Name returns the name of the election.
func (e *Election) Name() string { return e.scripts.spec.Name }

// Identity returns the identity of the candidate.
func (e *Election) Identity() string { return e.cfg.identity }

// wrap says of an error which call has failed, unless the error says so already.
func (e *Election) wrap(op string, err error) error {
	var said *latchkey.Error
	if errors.As(err, &said) && said.Kind == e.scripts.spec.Kind {
		return err
	}
	return e.engine.Wrap(op, e.scripts.spec, err)
}

// Run stands for the election, and calls fn for each term for which this candidate
// leads, until fn returns in its term or ctx is done.
//
// fn's context ends with the term: when the lease is lost (the cause is
// [latchkey.ErrLeaseLost]), by Resign and Transfer, when ctx is done and when the client
// is closed. It ends before the term of another candidate begins, as far as
// [latchkey.Hold.Context] does. fn has to return then; the lock is released when it has.
//
// If fn returns while its term goes on, the lead is given up and Run returns what fn
// has returned, also nil. What fn returns after the end of its term does not count, and
// Run stands again. So a body that ends with
//
//	<-ctx.Done()
//	return nil
//
// leads for as long as it can, and again after a loss. If ctx is done, Run returns its
// cause once fn has returned and the lead is given up. If fn panics, the lead is given
// up and the panic goes on.
//
// While Redis cannot be reached, Run tries again, at intervals that grow from 100 ms to
// 5 s. It returns errors that trying again cannot cure: missing rights, a key of another
// kind, a closed client, and a password that is refused before Redis has ever answered. A
// password that is refused later may be about to change, and Run tries again. The error is
// ErrRunning if another Run of the Election is under way. If the lead could not be given up,
// Run joins that error to the one of fn; the lead then ends with its lease.
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context, t Term) error) error {
	if err := e.scripts.spec.Unusable(); err != nil {
		return e.wrap("run", err)
	}
	e.mu.Lock()
	twice := e.running
	e.running = true
	e.mu.Unlock()
	if twice {
		return e.wrap("run", ErrRunning)
	}
	defer func() {
		e.mu.Lock()
		e.running = false
		e.mu.Unlock()
	}()
	c := newCandidate(e)
	defer c.member.leave()
	pause := leastPause
	for {
		g, err := c.campaign(ctx)
		if err == nil {
			var over bool
			if over, err = c.lead(ctx, g, fn); over {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			pause = leastPause
			continue
		case c.final(err):
			return err
		}
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
		pause = min(2*pause, mostPause)
	}
}

// How long Run pauses after an error.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// final reports whether an error of a campaign does not end by itself.
func (c *candidate) final(err error) bool {
	if errors.Is(err, errStale) {
		return false
	}
	select {
	case <-c.engine.Closed():
		return true
	default:
	}
	codes := []string{"NOPERM", "WRONGTYPE", "CROSSSLOT"}
	if !c.engine.Clock.Known() { // Redis has not answered this client yet
		codes = append(codes, "NOAUTH", "WRONGPASS")
	}
	for _, code := range codes {
		if run.IsCode(err, code) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A tenure is a term of this candidate.
type tenure struct {
	hold   *latchkey.Hold
	since  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	offers chan struct{} // holds a token while a Transfer is under way

	to   string        // the holder to whom the lock is passed; written before ctx ends
	over chan struct{} // closed when the lock is released
	err  error         // of the release; read after over
}

// lead begins a term and calls fn. over is set if its result is that of Run.
func (c *candidate) lead(ctx context.Context, g grant, fn func(context.Context, Term) error) (over bool, err error) {
	defer g.stop()
	e := c.Election
	number := g.hold.Token()
	st, since, err := e.scripts.begin(ctx, g.hold.HolderID(), number, time.Time{}, &e.cfg)
	if err != nil || st != done {
		_ = g.hold.Unlock(ctx) // it ends with its lease at the latest
		if err == nil && st == refused {
			err = errStale
		}
		return false, err
	}
	t := &tenure{hold: g.hold, since: since, offers: make(chan struct{}, 1), over: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(engine.ContextFor(ctx, engine.HeldOf(g.hold)))
	e.mu.Lock()
	e.term = t
	e.mu.Unlock()
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for sleep(t.ctx, again) {
			_, _, _ = e.scripts.begin(t.ctx, g.hold.HolderID(), number, since, &e.cfg)
		}
	})
	err = engine.During(
		func() error { return fn(t.ctx, Term{Number: number, Since: since}) },
		func() error {
			t.cancel(errReturned)
			keeper.Wait()
			c.release(context.WithoutCancel(ctx), t)
			return t.err
		},
	)
	cause := context.Cause(t.ctx)
	c.resigned = 0
	if errors.Is(cause, ErrResigned) {
		c.resigned = number
	}
	if cause == errReturned { //nolint:errorlint // it is only ever that
		return true, err
	}
	return false, nil
}

// unclaimed is the most for which the lock is passed to a candidate that does not take
// it: it has then gone, and the lead is open to all.
const unclaimed = 6 * time.Second

// release gives up the lead, whose context has ended.
func (c *candidate) release(ctx context.Context, t *tenure) {
	e := c.Election
	cause := context.Cause(t.ctx)
	passes, passed := errors.Is(cause, ErrTransferred), false
	if passes {
		claim := engine.Claim{Key: e.scripts.record, Channel: e.scripts.channel}
		passed, t.err = engine.HoldOf(t.hold).PassTo(ctx, t.to, min(unclaimed, e.engine.LeaseTime(e.lockConfig())), claim)
	} else {
		t.err = t.hold.Unlock(ctx)
	}
	if t.err == nil && !passed || errors.Is(t.err, latchkey.ErrLeaseLost) && !errors.Is(cause, latchkey.ErrLeaseLost) {
		_ = e.scripts.tell(ctx) // who has not heard it asks in a while
	}
	if t.err == nil && passes && !passed {
		t.err = ErrNoCandidate
	}
	e.mu.Lock()
	e.term = nil
	e.mu.Unlock()
	close(t.over)
}
