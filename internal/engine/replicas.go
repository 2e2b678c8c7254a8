package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
)

// returning returns the context and the options of one release request under
// ctx. With acked set, replicas must confirm it.
func (e *Engine) returning(ctx context.Context, acked bool) (context.Context, run.Options) {
	bound := returnBound
	if acked {
		bound += e.cfg.Acks.Timeout
	}
	return run.Within(ctx, bound), run.Options{CleanUp: true, Replicas: run.Confirmed(acked)}
}

// Done reports whether a call did its work, whatever its error: a release that
// too few replicas have confirmed is still a release.
func Done(err error) bool { return err == nil || errors.Is(err, run.ErrNotReplicated) }

// unreplicated gives back a grant that too few replicas have confirmed. The
// caller has the holding's ops.
func (c *lockAttempt) unreplicated(base int, short error) error {
	hd := c.holding
	v, err := c.spec.engine.returnOnce(c.spec.engine.gate.Late(), hd, c.spec,
		&Return{Holder: c.req.Holder, Count: base, Label: cmp.Or(c.cfg.Label, hd.tag())}, time.Now())
	if err == nil && v != PastDeadline {
		c.spec.engine.tookBackOne(c.spec)
		return short
	}
	if run.Classify(err) == run.Unknown {
		hd.releaseInDoubt(actsUntil())
	}
	c.doubt(base, 0)
	return short
}

// unreplicated gives back a grant that too few replicas have confirmed.
func (d *wantAttempt) unreplicated(short error) error {
	late := d.spec.engine.gate.Late()
	if v, err := d.want.Undo(run.Within(late, returnBound), run.CleanUp); err == nil && v == Granted {
		d.spec.engine.tookBackOne(d.spec)
	} else {
		d.doubt(0)
	}
	return short
}
