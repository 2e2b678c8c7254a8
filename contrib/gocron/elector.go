package gocron

import (
	"context"
	"sync"

	"github.com/latchkey-go/latchkey/elect"
)

// An Elector is a gocron.Elector: of the schedulers whose Electors stand for one
// election, the one that leads runs jobs.
type Elector struct {
	election *elect.Election

	mu   sync.Mutex
	term context.Context // of the present term, or nil
}

// NewElector returns an Elector for a candidate. It does not stand: Run does. It panics
// if e is nil.
func NewElector(e *elect.Election) *Elector {
	if e == nil {
		panic("gocron: NewElector: the election is nil")
	}
	return &Elector{election: e}
}

// Run stands for the election until ctx is done; see [elect.Election.Run] for its
// errors. When ctx is done the lead is given up: shut the scheduler down first, so that its
// jobs have ended by then.
func (e *Elector) Run(ctx context.Context) error {
	return e.election.Run(ctx, func(term context.Context, _ elect.Term) error {
		e.mu.Lock()
		e.term = term
		e.mu.Unlock()
		<-term.Done()
		return nil
	})
}

// IsLeader returns nil while this candidate leads, and elect.ErrNotLeader otherwise. It
// asks Redis nothing. A job that has begun in a term is not stopped at its end.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.term.Err() != nil {
		return elect.ErrNotLeader
	}
	return nil
}
