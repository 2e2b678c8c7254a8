package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// Acks says how many replicas must have a grant, and how long they may take.
type Acks struct {
	Min     int // 0: nobody asks
	Timeout time.Duration
}

// An acked is the context of a script that is followed by a WAIT on the same
// connection, as only that one covers what the script wrote. Redis counts all that
// its master had written by then, so a script that comes again and finds its work
// done is covered too.
type acked struct {
	context.Context
	got int   // replicas that have it
	err error // of WAIT
}

// acking returns the context for a request that is to be acknowledged; nil with
// ctx itself where none is.
func (e *Engine) acking(ctx context.Context) (context.Context, *acked) {
	if e.cfg.Acks.Min == 0 {
		return ctx, nil
	}
	a := &acked{Context: ctx}
	return a, a
}

// short says that too few replicas have the grant; nil when it is well.
func (a *acked) short(e *Engine) error {
	want := e.cfg.Acks
	switch {
	case a == nil || a.err == nil && a.got >= want.Min:
		return nil
	case a.err != nil:
		return both{ErrNotReplicated, a.err}
	}
	return both{ErrNotReplicated, fmt.Errorf("%d of %d replicas have confirmed within %v", a.got, want.Min, want.Timeout)}
}

// processAcked is process for a script that is to be acknowledged.
func (e *Engine) processAcked(a *acked, cmd redis.Cmder) error {
	type answer struct {
		got int
		err error
	}
	ctx, sent := a.Context, make(chan answer, 1)
	go func() {
		got, err := e.sendAcked(ctx, cmd)
		sent <- answer{got, err}
	}()
	select {
	case r := <-sent:
		a.got, a.err = r.got, r.err
		return e.ended(ctx, cmd.Err())
	case <-ctx.Done():
		return ctx.Err()
	case <-e.gate.closed:
		return ErrClosed
	}
}

// sendAcked sends cmd and WAIT, and returns the answer to the latter.
func (e *Engine) sendAcked(ctx context.Context, cmd redis.Cmder) (int, error) {
	pipe, err := e.ackPipe(ctx, cmd)
	if err != nil {
		cmd.SetErr(err)
		return 0, err
	}
	_ = pipe.Process(ctx, cmd) // go-redis sends the pipeline once, since cmd says NoRetry
	n := pipe.Do(ctx, "wait", e.cfg.Acks.Min, e.cfg.Acks.Timeout.Milliseconds())
	_, _ = pipe.Exec(ctx)
	if c, ok := e.rdb.(*redis.ClusterClient); ok && (isCode(cmd.Err(), "MOVED") || isCode(cmd.Err(), "ASK")) {
		c.ReloadState(context.WithoutCancel(ctx)) // the engine asks again
	}
	return n.Int()
}

// ackPipe returns a pipeline to the server of the first key of cmd that reads for
// long enough. (That of a ClusterClient would send WAIT to any node.)
func (e *Engine) ackPipe(ctx context.Context, cmd redis.Cmder) (redis.Pipeliner, error) {
	bound := e.cfg.Acks.Timeout + answerWithin
	switch rdb := e.rdb.(type) {
	case *redis.Client:
		return rdb.WithTimeout(bound).Pipeline(), nil
	case *redis.ClusterClient:
		key, _ := cmd.Args()[Head].(string)
		node, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return node.WithTimeout(bound).Pipeline(), nil
	}
	return e.rdb.Pipeline(), nil
}

// unreplicated gives back a grant that too few replicas have. The caller has the
// entry's ops.
func (c *claim) unreplicated(base int, short error) error {
	ent := c.entry
	v, err := c.engine.returnOnce(cleanup{Context: c.engine.gate.late}, ent, c.spec,
		&Return{Holder: c.req.Holder, Count: base, Label: c.cfg.Label})
	if err == nil && v != Late {
		c.engine.tookBackOne(c.spec)
		return short
	}
	if Sort(err) == Maybe {
		ent.unsettled(actsUntil())
	}
	c.doubt(base, 0)
	return short
}

// unreplicated gives back a grant that too few replicas have.
func (d *demand) unreplicated(short error) (wait.Answer, error) {
	once, cancel := context.WithTimeout(d.engine.gate.late, returnBound)
	defer cancel()
	if v, err := d.want.Undo(cleanup{Context: once}); err == nil && v == Granted {
		d.engine.tookBackOne(d.spec)
	} else {
		d.doubt(0)
	}
	return wait.Answer{}, short
}
