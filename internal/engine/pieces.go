package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/lua"
)

const (
	// piece is how many elements of a key one script reads: about a millisecond.
	piece = 500
	// again is how many of them the next one reads again, since those in front may have
	// left meanwhile.
	again = 50
)

// Queue reads the queue of a fair lock from a place on, and tells of each waiter once. The
// deadline is zero where there is none. Who comes or goes meanwhile may be missing.
func (e *Engine) Queue(ctx context.Context, opts SendOptions, queue, scores any, from int, tell func(id string, deadline time.Time)) error {
	seen := map[string]bool{}
	for {
		args := append(make([]any, Head, Head+4), queue, scores, from, from+piece-1)
		reply, err := e.Eval(ctx, opts, lua.FairLockWaiters, 2, args)
		if err != nil {
			return err
		}
		n := len(reply.Any) / 2
		for i := range n {
			id := fmt.Sprint(reply.Any[2*i])
			if seen[id] {
				continue
			}
			seen[id] = true
			var deadline time.Time
			if ms, ok := reply.Any[2*i+1].(int64); ok && ms > 0 {
				deadline = time.UnixMilli(ms)
			}
			tell(id, deadline)
		}
		if n < piece {
			return nil
		}
		from += piece - again
	}
}
