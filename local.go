package latchkey

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
)

// NewLocal returns a lock that excludes within this process only, for
// development and tests without Redis. It excludes no other process: do not use
// it where two processes run, above all in production. It panics if the name is
// empty.
//
// Within the process it behaves as a lock of package rlock. Locks with one name
// are one lock. A Hold's Context and WithHolder re-enter it. Waiters are served
// in the order in which they came. Lease, MaxHold, HoldAtLeast and Wait have
// their usual effect; Label has none. A hold without a Lease or a MaxHold lasts
// until Unlock: nothing renews it, it cannot be lost, and its Remaining is the
// longest Duration. Token is 0.
//
// A local lock needs no Client and no Close, and leaves nothing behind once it
// is unlocked.
func NewLocal(name string) Locker {
	if err := names.Check(name); err != nil {
		badOption("NewLocal: %v", err)
	}
	return &localLock{engine.Spec{Kind: "local", Name: name, Scope: name}}
}

type localLock struct{ spec engine.Spec }

// locals holds the local locks that are held, waited for, or closed for a
// while. Its mutex guards the map and everything reachable from it.
var locals = struct {
	sync.Mutex
	named map[string]*local
}{named: map[string]*local{}}

// A local is the state of a local lock that is not free.
type local struct {
	name    string
	holder  uint64
	holds   []*localHold
	until   time.Time // end of the longest lease of holder; used if each hold has a lease
	closed  time.Time // the lock stays closed until then, whatever is unlocked
	timer   *time.Timer
	waiters []*localWaiter
}

type localWaiter struct {
	ctx    context.Context
	cfg    *engine.LockConfig
	holder uint64
	ready  chan struct{} // closed when hold is set
	hold   *localHold
}

func (l *localLock) Name() string { return l.spec.Name }

func (l *localLock) Lock(ctx context.Context, opts ...LockOption) (*Hold, error) {
	return l.acquire(ctx, "lock", false, engine.NewLockConfig(opts))
}

func (l *localLock) TryLock(ctx context.Context, opts ...LockOption) (*Hold, error) {
	return l.acquire(ctx, "trylock", true, engine.NewLockConfig(opts))
}

func (l *localLock) acquire(ctx context.Context, op string, try bool, cfg *engine.LockConfig) (*Hold, error) {
	err := cfg.Check()
	if err == nil && cfg.Permanent {
		err = errors.New("the option Permanent is for permits")
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, l.wrap(op, err)
	}
	w := &localWaiter{ctx: ctx, cfg: cfg, ready: make(chan struct{})}
	var named bool
	if w.holder, named = engine.LocalHolder(ctx, &l.spec); !named {
		w.holder = engine.NewHolder()
	}
	h, err := l.wait(w, try || cfg.Waits)
	if err != nil {
		return nil, l.wrap(op, err)
	}
	out := new(Hold)
	engine.Bind(out, h)
	return out, nil
}

func (l *localLock) wait(w *localWaiter, bounded bool) (*localHold, error) {
	locals.Lock()
	defer locals.Unlock()
	s := locals.named[l.spec.Name]
	switch {
	case s == nil:
		s = &local{name: l.spec.Name, holder: w.holder}
		locals.named[s.name] = s
		s.grant(w)
		return w.hold, nil
	case s.holder == w.holder:
		s.grant(w)
		return w.hold, nil
	case bounded && w.cfg.Wait <= 0:
		return nil, ErrNotAcquired
	}
	s.waiters = append(s.waiters, w)
	locals.Unlock()
	var over <-chan time.Time
	if bounded {
		timer := time.NewTimer(w.cfg.Wait)
		defer timer.Stop()
		over = timer.C
	}
	err := ErrNotAcquired
	select {
	case <-w.ready:
	case <-over:
	case <-w.ctx.Done():
		err = w.ctx.Err()
	}
	locals.Lock()
	if w.hold != nil {
		return w.hold, nil
	}
	s.waiters = slices.DeleteFunc(s.waiters, func(o *localWaiter) bool { return o == w })
	return nil, err
}

func (l *localLock) wrap(op string, err error) error {
	if err == ErrNotAcquired { //nolint:errorlint // as it was made above
		err = &TakenError{Kind: l.spec.Kind, Name: l.spec.Name}
	}
	return newError(op, l.spec.Kind, l.spec.Name, false, err)
}

// grant adds a hold for w, whose holder has the lock.
func (s *local) grant(w *localWaiter) {
	h := &localHold{local: s, holder: w.holder, cfg: w.cfg, gone: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(engine.WithHold(w.ctx, h))
	if d := max(w.cfg.Lease, w.cfg.MaxHold); d > 0 {
		h.bounded = true
		s.prolong(d)
		if w.cfg.MaxHold > 0 {
			h.most = time.Now().Add(d)
		}
	}
	if w.cfg.AtLeast > 0 {
		s.stayClosed(w.cfg.AtLeast)
	}
	s.holds = append(s.holds, h)
	s.arm()
	w.hold = h
	close(w.ready)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *local) prolong(d time.Duration)    { s.until = later(s.until, time.Now().Add(d)) }
func (s *local) stayClosed(d time.Duration) { s.closed = later(s.closed, time.Now().Add(d)) }

// end returns when the lock becomes free without an Unlock; false for never.
func (s *local) end() (time.Time, bool) {
	for _, h := range s.holds {
		if !h.bounded {
			return time.Time{}, false
		}
	}
	if len(s.holds) == 0 {
		return s.closed, true
	}
	return s.until, true
}

// arm sets the timer that calls look when the lock may end.
func (s *local) arm() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if at, ends := s.end(); ends {
		s.timer = time.AfterFunc(time.Until(at), func() {
			locals.Lock()
			defer locals.Unlock()
			s.look()
		})
	}
}

// look frees the lock if its time is over. A timer that could not be stopped
// may call look at any moment.
func (s *local) look() {
	at, ends := s.end()
	if locals.named[s.name] != s || !ends || time.Now().Before(at) {
		return
	}
	for _, h := range s.holds {
		h.endLocked(ErrLeaseLost)
	}
	s.holds = nil
	s.free()
}

// free passes the lock to the first waiter and to all other waiters with the
// same holder. Without waiters it removes the lock.
func (s *local) free() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.until, s.closed = time.Time{}, time.Time{}
	if len(s.waiters) == 0 {
		delete(locals.named, s.name)
		return
	}
	s.holder = s.waiters[0].holder
	waiters := s.waiters
	s.waiters = nil
	for _, w := range waiters {
		if w.holder == s.holder {
			s.grant(w)
		} else {
			s.waiters = append(s.waiters, w)
		}
	}
}

// A localHold is one acquisition of a local lock.
type localHold struct {
	local   *local
	holder  uint64
	cfg     *engine.LockConfig
	bounded bool      // the hold has a Lease or a MaxHold
	most    time.Time // end of its MaxHold; zero without one
	ctx     context.Context
	cancel  context.CancelCauseFunc
	gone    chan struct{} // the channel of Lost
	err     error         // why it is not held
	cause   error         // cause of the end
	ended   func(cause error)
}

var _ engine.Held = (*localHold)(nil)

// endLocked ends h. A nil cause means Unlock.
func (h *localHold) endLocked(cause error) {
	h.err, h.cause = ErrNotHeld, cause
	h.cancel(cause)
	if cause != nil {
		h.err = engine.ErrLost
		close(h.gone)
	}
	if h.ended != nil {
		h.ended(cause)
	}
}

func (h *localHold) wrap(op string, err error) error {
	return newError(op, "local", h.local.name, false, err)
}

func (h *localHold) NotHeld(op string) error {
	locals.Lock()
	defer locals.Unlock()
	if h.err == nil {
		return nil
	}
	return h.wrap(op, h.err)
}

func (h *localHold) Unlock(context.Context) error {
	locals.Lock()
	defer locals.Unlock()
	if h.err != nil {
		return h.wrap("unlock", h.err)
	}
	h.endLocked(nil)
	s := h.local
	s.holds = slices.DeleteFunc(s.holds, func(o *localHold) bool { return o == h })
	switch {
	case len(s.holds) > 0:
		s.arm()
	case time.Now().Before(s.closed):
		s.holder = engine.NewHolder() // no caller's holder, so that nobody re-enters
		s.arm()
	default:
		s.free()
	}
	return nil
}

func (h *localHold) Extend(ctx context.Context, lease time.Duration) error {
	err := engine.CheckLease("a lease", lease)
	if err == nil {
		err = ctx.Err()
	}
	locals.Lock()
	defer locals.Unlock()
	if err == nil {
		err = h.err
	}
	if err == nil {
		lease, err = h.withinMaxHoldLocked(lease)
	}
	if err != nil {
		return h.wrap("extend", err)
	}
	h.local.prolong(lease)
	h.local.arm()
	return nil
}

// withinMaxHoldLocked shortens a lease to what MaxHold allows, as a lock in
// Redis does.
func (h *localHold) withinMaxHoldLocked(lease time.Duration) (time.Duration, error) {
	most := h.most
	for _, o := range h.local.holds {
		if h.most.IsZero() || !o.bounded {
			return lease, nil
		}
		most = later(most, o.most)
	}
	return h.cfg.Within(lease, time.Until(most))
}

func (h *localHold) Remaining() time.Duration {
	locals.Lock()
	defer locals.Unlock()
	if h.err != nil {
		return 0
	}
	at, ends := h.local.end()
	if !ends {
		return math.MaxInt64
	}
	return max(0, time.Until(at))
}

func (h *localHold) Name() string              { return h.local.name }
func (h *localHold) Context() context.Context  { return h.ctx }
func (h *localHold) Lost() <-chan struct{}     { return h.gone }
func (h *localHold) Token() int64              { return 0 }
func (h *localHold) Origins() []*engine.Origin { return nil }
func (h *localHold) Holder() uint64            { return h.holder }
func (h *localHold) HolderID() string          { return "local:" + strconv.FormatUint(h.holder, 10) }

func (h *localHold) Speaks(e *engine.Engine, s *engine.Spec) (holder uint64, ok bool) {
	if e != nil || s.Scope != h.local.name {
		return 0, false
	}
	locals.Lock()
	defer locals.Unlock()
	return h.holder, h.err == nil
}

// Holds returns nothing: Redis does not show a local lock.
func (h *localHold) Holds(*engine.Engine) []engine.HeldKey { return nil }

// JoinWhole and StayClosed let a multi-lock use a local lock.
func (h *localHold) JoinWhole(_ any, ended func(cause error)) {
	locals.Lock()
	defer locals.Unlock()
	h.ended = ended
	if h.err != nil {
		ended(h.cause)
	}
}

func (h *localHold) StayClosed(_ context.Context, d time.Duration) error {
	locals.Lock()
	defer locals.Unlock()
	h.local.stayClosed(d)
	return nil
}
