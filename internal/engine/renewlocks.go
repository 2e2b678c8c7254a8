package engine

import (
	"context"

	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/lua"
)

// RenewLocks runs rlock/renew, which serves every lock that is a hash of holder
// and hold count.
func (e *Engine) RenewLocks(ctx context.Context, batch []Renewal, d Deadline) ([]watchdog.Result, error) {
	args := make([]any, Head, Head+2+4*len(batch))
	holders := make([]any, 0, 2+3*len(batch))
	holders = append(holders, d.NotAfter, d.Ahead)
	for _, r := range batch {
		args = append(args, r.Key)
		holders = append(holders, r.Holder, r.Lease.Milliseconds())
		if r.Label != "" {
			args = append(args, LabelKey(r.Key, r.Holder))
			holders = append(holders, "", r.Lease.Milliseconds())
		}
	}
	keys := len(args) - Head
	reply, err := e.Eval(ctx, lua.RLockRenew, keys, append(args, holders...))
	if err != nil {
		return nil, err
	}
	if n := len(reply.Ints); n != 1 && n != 1+keys {
		return nil, Unexpected(lua.RLockRenew, reply.Ints)
	}
	e.Learn(reply, reply.Ints[0])
	if len(reply.Ints) == 1 {
		return nil, nil
	}
	results := make([]watchdog.Result, len(batch))
	next := 1
	for i, r := range batch {
		results[i] = renewResult(reply.Ints[next])
		next++
		if r.Label != "" {
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
