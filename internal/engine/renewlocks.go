package engine

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// RenewLocks runs rlock/renew, which serves every lock that is a hash of holder
// and hold count.
func (e *Engine) RenewLocks(ctx context.Context, opts run.Options, batch []Renewal, d run.Deadline) ([]watchdog.Result, error) {
	keys := len(batch)
	for i := range batch {
		if batch[i].Label != "" {
			keys++
		}
	}
	args := make([]any, run.Head, run.Head+2+3*keys)
	for i := range batch {
		r := &batch[i]
		args = append(args, r.Key)
		if r.Label != "" {
			args = append(args, names.Label(r.Key, r.Holder))
		}
	}
	args = append(args, d.NotAfter, d.Ahead)
	var lease time.Duration
	var ms any // lease as an argument; mostly the same for all
	for i := range batch {
		r := &batch[i]
		if ms == nil || r.Lease != lease {
			lease, ms = r.Lease, r.Lease.Milliseconds()
		}
		args = append(args, r.Holder, ms)
		if r.Label != "" {
			args = append(args, "", ms)
		}
	}
	reply, err := e.Eval(ctx, opts, lua.RLockRenew, keys, args)
	if err != nil {
		return nil, err
	}
	results := make([]watchdog.Result, len(batch))
	if reply.Int > 0 {
		e.Learn(reply, reply.Int)
		for i := range results {
			results[i] = watchdog.Extended
		}
		return results, nil
	}
	if n := len(reply.Ints); n != 1 && n != 1+keys {
		return nil, run.Unexpected(lua.RLockRenew, reply.Ints)
	}
	e.Learn(reply, reply.Ints[0])
	if len(reply.Ints) == 1 {
		return nil, nil
	}
	next := 1
	for i := range batch {
		results[i] = renewResult(reply.Ints[next])
		next++
		if batch[i].Label != "" {
			next++
		}
	}
	return results, nil
}

func renewResult(answer int64) watchdog.Result {
	switch answer {
	case 1:
		return watchdog.Extended
	case 0:
		return watchdog.NotOurs
	}
	return watchdog.Failed
}

// AcquireMany is EvalMany for a request for a lease. done is false if the reply
// did not settle the request.
func (e *Engine) AcquireMany(ctx context.Context, opts run.Options, r *run.BatchRequest, lease time.Duration) (g Grant, done bool, err error) {
	n, err := e.EvalMany(ctx, opts, r)
	switch {
	case err != nil || n == 0:
		return g, false, err
	case n > 0:
		return Grant{Status: Granted, Left: lease}, true, nil
	}
	return Grant{Status: Refused, Left: time.Duration(-n) * time.Millisecond}, true, nil
}
