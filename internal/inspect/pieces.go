package inspect

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

const (
	// piece is the number of elements of a key that one script reads, in about
	// a millisecond.
	piece = 500
	// again is how many of them the next script reads again, because earlier
	// elements may have left meanwhile.
	again = 50
)

// Queue reads the queue of a fair lock from an index on and calls tell once for
// each waiter. The deadline is zero if the waiter has none. Waiters that come
// or go meanwhile may be missing.
func Queue(ctx context.Context, e *engine.Engine, opts run.Options, queue, scores any, from int, tell func(id string, deadline time.Time)) error {
	seen := map[string]bool{}
	for {
		args := append(make([]any, run.Head, run.Head+4), queue, scores, from, from+piece-1)
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

// mostFields is the most fields that are read of a hash. No hash of ours has
// more.
const mostFields = 1_000_000

// readRest reads the rest of long keys, after the part that inspect/object has
// read. Elements that come or go meanwhile may be missing.
func readRest(ctx context.Context, e *engine.Engine, opts run.Options, s *engine.Spec, seen *seen) error {
	object, queue, scores, clients, permits := s.Keys[0], s.Keys[2], s.Keys[3], s.Keys[4], s.Keys[5]
	if seen.size > piece {
		err := fields(ctx, e, opts, object, func(field, value string) bool {
			seen.fields[field] = value
			seen.foreign = seen.foreign || !ofLock(field, value) || len(seen.fields) > mostFields
			return !seen.foreign
		})
		if err != nil {
			return err
		}
		if _, mode := seen.fields["mode"]; len(seen.fields) == 0 || mode && len(seen.fields) == 1 {
			seen.kind, seen.left = "none", -2 // freed meanwhile
		}
	}
	if len(seen.queue) == 2*piece {
		if err := queueRest(ctx, e, opts, queue, scores, seen); err != nil {
			return err
		}
	}
	if seen.known > piece {
		err := fields(ctx, e, opts, clients, func(client, till string) bool {
			seen.clients[client] = till
			return len(seen.clients) <= mostFields
		})
		if err != nil {
			return err
		}
	}
	if len(seen.permits) == 2*piece {
		return permitsRest(ctx, e, opts, permits, seen)
	}
	return nil
}

// ofLock reports whether a lock may have that field: a holder, the mode, or a
// field of a multi-lock on a group.
func ofLock(field, value string) bool {
	if field == "mode" {
		return true
	}
	if !strings.Contains(field, ":") {
		return strings.Contains(value, ":")
	}
	_, err := strconv.ParseInt(value, 10, 64)
	return err == nil
}

// fields reads a hash and calls tell for each field, for some twice, until tell
// returns false.
func fields(ctx context.Context, e *engine.Engine, opts run.Options, key string, tell func(field, value string) bool) error {
	for from := "0"; ; {
		args := append(make([]any, run.Head, run.Head+3), key, from, piece)
		reply, err := e.Eval(ctx, opts, lua.InspectFields, 1, args)
		if err != nil {
			return err
		}
		if len(reply.Any) != 2 {
			return run.Unexpected(lua.InspectFields, reply.Any)
		}
		list, ok := reply.Any[1].([]any)
		if !ok || len(list)%2 != 0 {
			return run.Unexpected(lua.InspectFields, reply.Any)
		}
		for i := 0; i < len(list); i += 2 {
			if !tell(fmt.Sprint(list[i]), fmt.Sprint(list[i+1])) {
				return nil
			}
		}
		if from = fmt.Sprint(reply.Any[0]); from == "0" {
			return nil
		}
	}
}

// queueRest reads the waiters of a fair lock after the first piece.
func queueRest(ctx context.Context, e *engine.Engine, opts run.Options, queue, scores string, seen *seen) error {
	has := make(map[string]bool, piece)
	for i := 0; i < len(seen.queue); i += 2 {
		has[seen.queue[i]] = true
	}
	return Queue(ctx, e, opts, queue, scores, piece-again, func(id string, deadline time.Time) {
		if has[id] {
			return
		}
		score := ""
		if !deadline.IsZero() {
			score = strconv.FormatInt(deadline.UnixMilli(), 10)
		}
		seen.queue = append(seen.queue, id, score)
	})
}

// permitsRest reads the permits that are out after the first piece. It reads by
// score, because a renewal moves a permit to the end of the set and so changes
// the ranks of those after it.
func permitsRest(ctx context.Context, e *engine.Engine, opts run.Options, key string, seen *seen) error {
	at := make(map[string]int, 2*piece) // the index of each permit's score
	for i := 0; i < len(seen.permits); i += 2 {
		at[seen.permits[i]] = i + 1
	}
	from, same := behind(seen.permits, "", 0)
	for {
		skip := max(same-again, 0)
		args := append(make([]any, run.Head, run.Head+4), key, from, skip, piece)
		reply, err := e.Eval(ctx, opts, lua.InspectPermits, 1, args)
		if err != nil {
			return err
		}
		if len(reply.Any)%2 != 0 {
			return run.Unexpected(lua.InspectPermits, reply.Any)
		}
		got := make([]string, len(reply.Any))
		for i, x := range reply.Any {
			got[i] = fmt.Sprint(x)
		}
		for i := 0; i < len(got); i += 2 {
			id, score := got[i], got[i+1]
			if n := at[id]; n > 0 {
				seen.permits[n] = score
				continue
			}
			seen.permits = append(seen.permits, id, score)
			at[id] = len(seen.permits) - 1
		}
		if len(got) < 2*piece {
			return nil
		}
		from, same = behind(got, from, skip)
	}
}

// behind returns the last score of a piece, and how many permits with that
// score have been read. The piece began at score from, of which skip permits
// were left out.
func behind(piece []string, from string, skip int) (score string, same int) {
	score = piece[len(piece)-1]
	for i := len(piece) - 1; i > 0 && piece[i] == score; i -= 2 {
		same++
	}
	if score == from {
		same += skip
	}
	return score, same
}
