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

// NewLocal returns the lock of that name of this process, for development and
// tests without a Redis. It excludes nobody in another process: never take it where
// two processes run, in production above all. It panics when the name is empty.
//
// Within the process it is as rlock is: locks of one name are one lock; a Hold's
// Context and WithHolder re-enter it; waiters are served in the order in which they
// came. Lease, MaxHold, HoldAtLeast and Wait do what they say, Label nothing. A
// hold without a Lease or a MaxHold lasts until Unlock: nothing renews it, nothing
// can lose it, and its Remaining is the longest Duration there is. Token is 0.
//
// It needs no client and no Close, and leaves nothing behind once all is unlocked.
func NewLocal(name string) Locker {
	if err := names.Check(name); err != nil {
		badOption("NewLocal: %v", err)
	}
	return &localLock{engine.Spec{Kind: "local", Name: name, Scope: name}}
}

type localLock struct{ spec engine.Spec }

// locals has the local locks that are held, waited for, or closed for a while.
// Its mutex guards all that they are made of.
var locals = struct {
	sync.Mutex
	named map[string]*local
}{named: map[string]*local{}}

// A local is the state of a local lock that is not free.
type local struct {
	name    string
	holder  uint64
	holds   []*localHold
	until   time.Time // the end of the longest lease of holder, for when each hold has one
	closed  time.Time // until when it stays closed, whatever is unlocked
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
	return newError(op, l.spec.Kind, l.spec.Name, false, err)
}

// grant gives s, which w's holder has, to w.
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

// end returns when s will be free without an Unlock; false for never.
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

// arm has s looked at when it may end.
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

// look frees s when its time is over. A timer that was too late to be stopped may
// call it at any moment.
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

// free gives s to the first who waits, and to all who wait in the name of the same
// holder; without any there is no s any more.
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
	bounded bool      // by a Lease or a MaxHold
	most    time.Time // the end of its MaxHold; zero without one
	ctx     context.Context
	cancel  context.CancelCauseFunc
	gone    chan struct{} // behind Lost
	err     error         // why it is not held
	cause   error         // with which it ended
	ended   func(cause error)
}

var _ engine.Held = (*localHold)(nil)

// endLocked ends h; without a cause by Unlock.
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
		s.holder = engine.NewHolder() // nobody's
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

// withinMaxHoldLocked cuts a lease to what MaxHold leaves, as for a lock in Redis.
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

func (h *localHold) Name() string             { return h.local.name }
func (h *localHold) Context() context.Context { return h.ctx }
func (h *localHold) Lost() <-chan struct{}    { return h.gone }
func (h *localHold) Token() int64             { return 0 }
func (h *localHold) Holder() uint64           { return h.holder }
func (h *localHold) HolderID() string         { return "local:" + strconv.FormatUint(h.holder, 10) }

func (h *localHold) Speaks(e *engine.Engine, s *engine.Spec) (holder uint64, ok bool) {
	if e != nil || s.Scope != h.local.name {
		return 0, false
	}
	locals.Lock()
	defer locals.Unlock()
	return h.holder, h.err == nil
}

// JoinWhole and StayClosed let a multi-lock have it.
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
