package elect

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// A candidate is the state of one call of Run.
type candidate struct {
	*Election
	member   *member
	resigned int64       // the term that it has resigned, or 0
	aside    atomic.Bool // it waits for another leader
	place    *place      // what it has accepted, or nil
}

// A place is a holder for which a candidate has accepted the lead. The leader passes
// the lock to it.
type place struct {
	nonce string
	n     uint64 // number of the holder
	id    string // the holder as Redis shows it

	accepted bool // Redis has said so
}

// A grant is a hold of the lock, and what ends its context.
type grant struct {
	hold *latchkey.Hold
	err  error
	stop context.CancelFunc
}

func newCandidate(e *Election) *candidate {
	c := &candidate{Election: e}
	c.member = e.scripts.join(false, func(st *state) bool { return st.next == e.cfg.identity || c.aside.Load() })
	return c
}

// standAside is how long a candidate that has resigned leaves the lead to others.
const standAside = time.Second

// campaign waits until the candidate has the lock: in the line of its client, or by a
// Transfer. One that has resigned first waits until somebody else leads, or for a while.
func (c *candidate) campaign(ctx context.Context) (grant, error) {
	lctx, stop := context.WithCancel(engine.WithoutHolder(ctx))
	var locked chan grant // nil until it stands in line
	stand := func() {
		c.aside.Store(false)
		locked = make(chan grant, 1)
		go func(locked chan<- grant) {
			h, err := c.lock.Lock(lctx, c.lease())
			locked <- grant{h, err, stop}
		}(locked)
	}
	// leave leaves the line.
	leave := func() {
		stop()
		if locked == nil {
			return
		}
		if g := <-locked; g.err == nil {
			_ = g.hold.Unlock(ctx)
		}
	}
	var others <-chan time.Time
	c.aside.Store(c.resigned > 0)
	if st := c.member.look(); c.resigned > 0 && !c.succeeded(st) {
		t := time.NewTimer(standAside)
		defer t.Stop()
		others = t.C
	} else {
		stand()
	}
	for {
		select {
		case g := <-locked:
			if g.err != nil {
				stop()
				c.giveUpPlace(ctx)
			}
			c.setPlace(nil)
			return g, g.err
		case <-others:
			others = nil
			stand()
		case <-ctx.Done():
			leave()
			c.giveUpPlace(ctx)
			return grant{}, ctx.Err()
		case <-c.member.named: // the lock was passed to the holder of c's place
			if g, ok := c.takePlace(ctx); ok {
				leave()
				return g, nil
			}
		case <-c.member.wake:
			st := c.member.look()
			if others != nil && c.succeeded(st) {
				others = nil
				stand()
			}
			if g, ok := c.offered(ctx, st); ok {
				leave()
				return g, nil
			}
		}
	}
}

// succeeded reports whether somebody has led since the term that c has resigned.
func (c *candidate) succeeded(st state) bool { return st.leader.Term.Number > c.resigned }

// offered accepts the lead if it is offered to c, and returns the lock if it was passed.
func (c *candidate) offered(ctx context.Context, st state) (grant, bool) {
	if st.next != c.cfg.identity {
		return grant{}, false
	}
	if c.place == nil || c.place.nonce != st.nonce {
		if st.accepted != "" {
			return grant{}, false // by another candidate with its identity
		}
		n := engine.NewHolder()
		c.setPlace(&place{nonce: st.nonce, n: n, id: c.engine.HolderID(n)})
	}
	switch {
	case st.passed && st.accepted == c.place.id:
		return c.takePlace(ctx)
	case st.accepted == "" && !c.place.accepted:
		// Without an answer it may have been accepted, and will be by the same holder.
		got, err := c.scripts.accept(ctx, c.place.id, c.place.nonce, true)
		switch {
		case err == nil && got == refused:
			c.setPlace(nil)
		case err == nil:
			c.place.accepted = true
		}
	}
	return grant{}, false
}

// setPlace makes p the place of c; nil is none.
func (c *candidate) setPlace(p *place) {
	c.place = p
	name := ""
	if p != nil {
		name = p.id
	}
	c.member.expect(name)
	select {
	case <-c.member.named: // of before
	default:
	}
}

// takePlace acquires the lock, which was passed to the holder of c's place. The request
// goes on when ctx is done, so that its result is known. If Redis has not said who has the
// lock, c keeps the place: it asks again, or gives it up.
func (c *candidate) takePlace(ctx context.Context) (grant, bool) {
	if c.place == nil {
		return grant{}, false // it has been given up since
	}
	pctx, end := context.WithCancelCause(engine.WithHolder(engine.WithoutHolder(context.WithoutCancel(ctx)), c.place.n))
	h, err := c.lock.TryLock(pctx, c.lease())
	var taken *latchkey.TakenError
	if err == nil || errors.As(err, &taken) {
		c.setPlace(nil)
	}
	if err != nil {
		end(nil)
		return grant{}, false
	}
	forget := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	return grant{h, nil, func() { forget(); end(nil) }}, true
}

// giveUpPlace declines what c has accepted, or may have.
func (c *candidate) giveUpPlace(ctx context.Context) {
	p := c.place
	if p == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if got, err := c.scripts.accept(ctx, p.id, p.nonce, false); err == nil && got == has {
		if g, ok := c.takePlace(ctx); ok {
			_ = g.hold.Unlock(ctx)
			g.stop()
		}
	}
	c.setPlace(nil)
}

// lease is the option that sets the lease of the lock.
func (e *Election) lease() latchkey.LockOption {
	return engine.LockOptionFunc(func(c *engine.LockConfig) { c.Renewed = e.cfg.lease })
}

// lockConfig returns how the lock is acquired.
func (e *Election) lockConfig() *engine.LockConfig {
	return engine.NewLockConfig([]latchkey.LockOption{e.lease()})
}
