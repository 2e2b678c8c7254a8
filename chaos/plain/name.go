package plain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kinds are the kinds of object that a load has.
var Kinds = []string{
	"rlock", "fenced", "nonreentrant", "spin", "mixed", "fairlock", "rwlock", "multilock", "group",
	"semaphore", "permitsemaphore", "countdownlatch",
}

// A name is one object: who believes to have it, and the last operations.
type name struct {
	*run
	key, kind string

	mu      sync.Mutex
	has     []*belief
	free    time.Duration // by the clock, since when nobody has it
	waiting map[*waiting]bool
	closed  time.Duration // since when a latch is surely closed; 0: it may be open
	ring    [150]string
	ops     int
}

// A belief is what a hold believes in.
type belief struct {
	who  string
	read bool
	part uint // values of a group, as bits
	n    int  // permits
	left func() time.Duration
}

// A waiting is a call that may wait.
type waiting struct{ since time.Duration }

// makeNames makes the names of a run.
func (r *run) makeNames(dice *rand.Rand) {
	kinds := r.cfg.Kinds
	if len(kinds) == 0 {
		kinds = Kinds
	}
	for _, kind := range kinds {
		count := 1 + dice.IntN(2)
		if kind == "multilock" {
			count = 3
		}
		for i := range count {
			r.names = append(r.names, &name{run: r, kind: kind, key: fmt.Sprintf("%s-%d", kind, i), waiting: map[*waiting]bool{}})
		}
	}
}

// of returns the name that a key of Redis belongs to, nil if there is none.
func (r *run) of(key string) (found *name) {
	for _, n := range r.names {
		if strings.Contains(key, n.key) && (found == nil || len(n.key) > len(found.key)) {
			found = n
		}
	}
	return found
}

// note adds an operation to the ring.
func (n *name) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ring[n.ops%len(n.ring)] = fmt.Sprintf("%9.3f ", n.ms()) + fmt.Sprintf(format, args...)
	n.ops++
}

// history returns the ring.
func (n *name) history() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for i := max(0, n.ops-len(n.ring)); i < n.ops; i++ {
		b.WriteString("\n    " + n.ring[i%len(n.ring)])
	}
	return b.String()
}

func (n *name) waiters() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}

// begin notes a call that may wait.
func (n *name) begin() *waiting {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &waiting{n.passed()}
	n.waiting[w] = true
	return w
}

func (n *name) end(w *waiting) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, w)
}

// excludes reports whether not both can be true.
func (n *name) excludes(a, b *belief) bool {
	switch {
	case a.who == b.who, a.read && b.read:
		return false
	case a.part != 0:
		return a.part&b.part != 0
	}
	return true
}

// believe begins a belief, unless its time is over already. It fails if that cannot be.
func (n *name) believe(b *belief) {
	n.Holds.Add(1)
	n.mu.Lock()
	var other *belief
	sum := b.n
	n.has = slices.DeleteFunc(n.has, func(o *belief) bool { return o.left() <= 0 })
	for _, o := range n.has {
		sum += o.n
		if o.n == 0 && n.excludes(b, o) {
			other = o
		}
	}
	over := b.left() <= 0 // asked after the others: who has time left now had it then
	if !over {
		n.has = append(n.has, b)
	}
	n.mu.Unlock()
	if over {
		return
	}
	if other != nil {
		n.fail(n, "%s: %s has it, and so has %s (for %v more)", n.key, b.who, other.who, other.left())
	}
	if sum > capacity {
		n.fail(n, "%s: %d permits are out of %d", n.key, sum, capacity)
	}
}

// give ends a belief.
func (n *name) give(b *belief) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.has = slices.DeleteFunc(n.has, func(o *belief) bool { return o == b })
	n.free = n.passed()
}

// overdue returns for how long the name has been free although somebody waits for it.
func (n *name) overdue() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.passed()
	n.has = slices.DeleteFunc(n.has, func(o *belief) bool { return o.left() <= 0 && o.n == 0 })
	if len(n.has) > 0 {
		n.free = now
		return 0
	}
	var worst time.Duration
	for w := range n.waiting {
		worst = max(worst, now-max(w.since, n.free))
	}
	return worst
}

// watch looks for keys without expiry, and for those who wait for what is free.
func (r *run) watch(ctx context.Context, done <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if ctx.Err() != nil {
			continue
		}
		for _, n := range r.names {
			if d := n.overdue(); d > r.recheck+slack && n.kind != "countdownlatch" {
				r.fail(n, "%s is free, and who waits for it has not had it for %v", n.key, d)
			}
		}
		for _, s := range r.keys(ctx) {
			if s.ttl == -1 && !counter(s.key) {
				r.fail(r.of(s.key), "%s has no expiry", s)
			}
		}
	}
}

// A stand is a key in Redis.
type stand struct {
	key, value string
	ttl        time.Duration // -1 without expiry
}

func (s stand) String() string { return fmt.Sprintf("%s (%v): %s", s.key, s.ttl, s.value) }

// counter reports whether a key keeps a count, or a claim to have changed one.
func counter(key string) bool {
	for _, p := range []string{"semaphore", "permitsemaphore", "{permitsemaphore", "countdownlatch", "redisson_lock_token:"} {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// standing returns what should not be there when nobody holds or waits.
func (r *run) standing(ctx context.Context) []stand {
	left := slices.DeleteFunc(r.keys(ctx), func(s stand) bool {
		for _, p := range []string{"latchkey_claim:", "latchkey_ended:", "latchkey_writer:"} {
			if strings.HasPrefix(s.key, p) {
				return true
			}
		}
		return counter(s.key) && !strings.HasSuffix(s.key, "}:timeout") || strings.HasPrefix(s.key, "group") && r.dead(ctx, s.key)
	})
	for i := range left {
		left[i].value = r.value(ctx, left[i].key)
	}
	return left
}

// dead reports whether the leases of all values of a group have ended: whoever takes
// one next removes what is left of it, or the group does as it expires.
func (r *run) dead(ctx context.Context, group string) bool {
	const script = `local time = redis.call('TIME')
for i, v in ipairs(redis.call('HGETALL', KEYS[1])) do
  if i % 2 == 1 and string.find(v, ':expire_time', 1, true) then
    if tonumber(redis.call('HGET', KEYS[1], v)) > time[1] * 1000 + time[2] / 1000 then return 0 end
  end
end
return 1`
	return r.rdb.Eval(ctx, script, []string{group}).Val() == int64(1)
}

// keys returns all keys and their expiries. A key that goes meanwhile is left out.
func (r *run) keys(ctx context.Context) []stand {
	const script = `local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1] = key
  out[#out + 1] = redis.call('PTTL', key)
end
return out`
	flat, err := r.rdb.Eval(ctx, script, nil).Slice()
	if err != nil {
		if ctx.Err() == nil {
			r.fail(nil, "the keys: %v", err)
		}
		return nil
	}
	var all []stand
	for i := 0; i < len(flat); i += 2 {
		ms, _ := flat[i+1].(int64)
		s := stand{key: fmt.Sprint(flat[i]), ttl: time.Duration(ms) * time.Millisecond}
		if ms < 0 {
			s.ttl = time.Duration(ms)
		}
		all = append(all, s)
	}
	return all
}

// value returns what a key has, for people.
func (r *run) value(ctx context.Context, key string) string {
	var v any
	switch r.rdb.Type(ctx, key).Val() {
	case "hash":
		v = r.rdb.HGetAll(ctx, key).Val()
	case "string":
		v = r.rdb.Get(ctx, key).Val()
	case "list":
		v = r.rdb.LRange(ctx, key, 0, 9).Val()
	case "zset":
		v = r.rdb.ZRangeWithScores(ctx, key, 0, 9).Val()
	case "set":
		v = r.rdb.SMembers(ctx, key).Val()
	}
	return fmt.Sprintf("%.600q", fmt.Sprint(v))
}
