package elect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// tenure returns the present term of this candidate, or nil.
func (e *Election) tenure() *tenure {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// wait waits until the lock of t is released, or ctx is done. cause is what has ended t.
func (t *tenure) wait(ctx context.Context, cause error) error {
	select {
	case <-t.over:
		return t.err
	default:
	}
	select {
	case <-t.over:
		return t.err
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), cause) {
			return nil // it is the term's own, or one that derives from it
		}
		return ctx.Err()
	}
}

// Resign ends the term of this candidate: the context of its function ends with the cause
// ErrResigned. Resign waits until the function has returned and the lead is given up, or
// ctx is done; it has resigned in both cases. Called by the function, it must be given the
// function's own context, and returns at once: with any other one the function would wait
// for itself. Run then stands again, behind the others: somebody else who stands leads
// first, and if nobody does, nobody leads for a second. If this candidate does not lead,
// the error is ErrNotLeader.
func (e *Election) Resign(ctx context.Context) error {
	t := e.tenure()
	if t == nil {
		return e.wrap("resign", ErrNotLeader)
	}
	t.cancel(ErrResigned)
	if cause := context.Cause(t.ctx); !errors.Is(cause, ErrResigned) {
		return e.wrap("resign", ErrNotLeader) // the term has ended otherwise
	}
	return e.wrap("resign", t.wait(ctx, ErrResigned))
}

// answer is how long Transfer waits for the candidate.
const answer = time.Second

// Transfer makes the candidate with the given identity the next leader. That candidate
// has to stand for the election (Run), and says that it takes over before anything ends:
// if it does not answer within a second, or before ctx is done, the error is
// ErrNoCandidate, and this candidate leads on.
//
// Then the term of this candidate ends, with the cause ErrTransferred. When its function
// has returned, the lock is passed to the other candidate in one step, so that no third
// candidate can take the lead in between. Transfer waits for that, or until ctx is done,
// as Resign does. If the other candidate stops between its answer and that step, the lead
// is open to all and the error is ErrNoCandidate; if it dies, nobody leads for 6 s, or
// until the lease has ended if that is sooner. Run stands again. If this candidate does
// not lead, or its term has been transferred already, the error is ErrNotLeader.
func (e *Election) Transfer(ctx context.Context, identity string) error {
	return e.wrap("transfer", e.transfer(ctx, identity))
}

func (e *Election) transfer(ctx context.Context, identity string) error {
	if err := checkIdentity(identity); err != nil {
		return err
	}
	if identity == e.cfg.identity {
		return fmt.Errorf("the identity %q is that of this candidate", identity)
	}
	t := e.tenure()
	if t == nil {
		return ErrNotLeader
	}
	select {
	case t.offers <- struct{}{}: // one at a time
		defer func() { <-t.offers }()
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ctx.Done():
		return ErrNotLeader
	}
	if t.ctx.Err() != nil {
		return ErrNotLeader // an offer would be in the way of the Transfer that has ended it
	}
	to, err := e.offer(ctx, t, identity)
	if err != nil {
		return err
	}
	t.to = to
	t.cancel(ErrTransferred)
	if !errors.Is(context.Cause(t.ctx), ErrTransferred) {
		return ErrNotLeader // it has ended otherwise
	}
	return t.wait(ctx, ErrTransferred)
}

// offer offers the lead to a candidate, and returns the holder for which it has accepted.
func (e *Election) offer(ctx context.Context, t *tenure, identity string) (holder string, err error) {
	nonce := rand.Text()
	m := e.scripts.join(false, func(st *state) bool { return st.nonce == nonce && st.accepted != "" })
	defer m.leave()
	got, err := e.scripts.offer(ctx, t.hold, nonce, identity)
	if err == nil && got == notHolder { // or the record is lost
		st, _, lost := e.scripts.begin(ctx, t.hold.HolderID(), t.hold.Token(), t.since, &e.cfg)
		if lost == nil && st == done {
			got, err = e.scripts.offer(ctx, t.hold, nonce, identity)
		}
	}
	switch {
	case err != nil:
		return "", err
	case got != done:
		return "", ErrNotLeader
	}
	timer := time.NewTimer(answer)
	defer timer.Stop()
	select {
	case <-m.wake:
		st := m.look()
		if st.nonce == nonce && st.accepted != "" {
			return st.accepted, nil
		}
	case <-timer.C:
	case <-ctx.Done():
	case <-t.ctx.Done():
		return "", ErrNotLeader
	}
	out := context.WithoutCancel(ctx)
	switch got, err := e.scripts.offer(out, t.hold, nonce, ""); {
	case err != nil:
		return "", err
	case got == notHolder:
		return "", ErrNotLeader
	case got == done:
		return "", ErrNoCandidate
	}
	st, err := e.scripts.read(out, "transfer")
	switch {
	case err != nil:
		return "", err
	case st.nonce != nonce || st.accepted == "":
		return "", ErrNoCandidate // taken back
	}
	return st.accepted, nil
}
