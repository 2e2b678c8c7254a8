// Package inspect reads what a name stands for in Redis, whatever its kind, in
// pieces that occupy Redis for about a millisecond each.
package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// An Object is what Redis and the memory of this client show of a name.
type Object struct {
	Kind      string
	At        time.Time     // by the server's clock
	Left      time.Duration // 0 if there is nothing; -1 if the key has no expiry
	Token     int64
	Count     int64
	Listeners int // -1: unknown
	Holders   []Holder
	Waiters   []Waiter
}

// A Holder is one holder.
type Holder struct {
	ID    string
	Who   engine.Who
	Count int
	Lease time.Duration // 0: over; -1: without end
	Mode  string
	Value string

	sides []string // the side keys of the holder: its label, and the keys that keep it alive
}

// A Waiter is one waiter.
type Waiter struct {
	ID       string
	Who      engine.Who
	Deadline time.Time // zero: unknown
}

// Read returns what a name stands for.
func Read(ctx context.Context, c engine.Host, name string) (Object, error) {
	e, key := engine.Of(c), engine.Mapped(c, name)
	s := &engine.Spec{Kind: "latchkey", Name: name, Key: key, Keys: []string{
		key,
		names.Token(key),
		names.Prefixed("redisson_lock_queue", key),
		names.Prefixed("redisson_lock_timeout", key),
		names.Prefixed("latchkey_queue", key),
		names.Suffixed(key, "timeout"),
		names.Ours("latchkey_ended", key),
	}}
	if err := names.Check(name); err != nil {
		return Object{}, e.Wrap("info", s, err)
	}
	var in Object
	var odd error // a conflict of keys; asking again would not help
	err := e.Ask(ctx, "info", e.Prepare(s), true, func(ctx context.Context, opts run.Options) (err error) {
		in, odd, err = read(ctx, e, opts, s)
		return err
	})
	if err == nil {
		err = e.Wrap("info", s, odd)
	}
	return in, err
}

// read asks Redis. odd is the error for keys that belong neither to latchkey
// nor to Redisson.
func read(ctx context.Context, e *engine.Engine, opts run.Options, s *engine.Spec) (in Object, odd, err error) {
	args := make([]any, run.Head, run.Head+len(s.Keys)+5)
	for _, k := range s.Keys {
		args = append(args, k)
	}
	args = append(args,
		names.Prefixed("redisson_lock__channel", s.Key),
		names.Prefixed("redisson_rwlock", s.Key),
		names.Prefixed("redisson_sc", s.Key),
		e.LatchChannel(s.Key),
		piece)
	reply, err := e.Eval(ctx, opts, lua.InspectObject, len(s.Keys), args)
	if err != nil {
		return in, nil, err
	}
	seen, err := readSeen(reply)
	if err != nil {
		return in, nil, err
	}
	e.Learn(reply, seen.now.UnixMilli())
	if err := readRest(ctx, e, opts, s, &seen); err != nil {
		return in, nil, err
	}
	if in, odd = seen.object(s.Key); odd != nil {
		return in, odd, nil
	}
	if err := readSides(ctx, e, opts, s.Key, &in); err != nil {
		return in, nil, err
	}
	remember(e, s.Key, &in)
	return in, nil, nil
}

// A seen is the reply of inspect/object.
type seen struct {
	kind                string
	left                int64
	now                 time.Time
	value, token, ended string
	fields              map[string]string
	queue, permits      []string // pairs
	clients             map[string]string
	listeners           []int64 // of lock, read-write lock, semaphore, latch
	size, known         int64   // number of fields and of clients
	foreign             bool    // the fields are not those of a lock
}

func readSeen(reply run.Reply) (seen, error) {
	var s seen
	bad := func() (seen, error) { return s, run.Unexpected(lua.InspectObject, reply.Any) }
	if len(reply.Any) != 12 {
		return bad()
	}
	for at, text := range map[int]*string{0: &s.kind, 3: &s.value, 4: &s.token, 5: &s.ended} {
		*text = fmt.Sprint(reply.Any[at])
	}
	now, ok := reply.Any[2].(int64)
	left, ok2 := reply.Any[1].(int64)
	if !ok || !ok2 {
		return bad()
	}
	s.left, s.now = left, time.UnixMilli(now)
	var lists [4][]string
	for i := range lists {
		list, ok := reply.Any[6+i].([]any)
		if !ok || len(list)%2 != 0 {
			return bad()
		}
		for _, x := range list {
			lists[i] = append(lists[i], fmt.Sprint(x))
		}
	}
	s.fields, s.queue, s.clients, s.permits = pairs(lists[0]), lists[1], pairs(lists[2]), lists[3]
	counts, _ := reply.Any[10].([]any)
	for _, x := range counts {
		n, _ := x.(int64)
		s.listeners = append(s.listeners, n)
	}
	sizes, _ := reply.Any[11].([]any)
	if len(s.listeners) != 4 || len(sizes) != 2 {
		return bad()
	}
	s.size, _ = sizes[0].(int64)
	s.known, _ = sizes[1].(int64)
	return s, nil
}

// pairs makes a map of a list of keys and values.
func pairs(list []string) map[string]string {
	m := make(map[string]string, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

const (
	// sideBatch is the number of side keys that one script reads.
	sideBatch = 500
	// mostWaiters is the number of waiters whose labels are read.
	mostWaiters = 100
)

// readSides adds what the side keys of holders and waiters contain.
func readSides(ctx context.Context, e *engine.Engine, opts run.Options, key string, in *Object) error {
	var take []func(text string, left int64)
	var keys []string
	for i := range in.Holders {
		h := &in.Holders[i]
		for n, k := range h.sides {
			keys = append(keys, k)
			if n == 0 {
				take = append(take, func(text string, _ int64) { h.Who = engine.ParseWho(text) })
			} else {
				take = append(take, func(_ string, left int64) { h.Lease = max(h.Lease, millisLeft(left)) })
			}
		}
	}
	for i := range in.Waiters[:min(len(in.Waiters), mostWaiters)] {
		w := &in.Waiters[i]
		keys = append(keys, names.Label(key, w.ID))
		take = append(take, func(text string, _ int64) { w.Who = engine.ParseWho(text) })
	}
	return eachSide(ctx, e, opts, keys, func(i int, text string, left int64) { take[i](text, left) })
}

// eachSide reads side keys and calls tell for each: with its index, its text, and its
// reply of PTTL.
func eachSide(ctx context.Context, e *engine.Engine, opts run.Options, keys []string, tell func(i int, text string, left int64)) error {
	at := 0
	for batch := range slices.Chunk(keys, sideBatch) {
		args := make([]any, run.Head, run.Head+len(batch))
		for _, k := range batch {
			args = append(args, k)
		}
		reply, err := e.Eval(ctx, opts, lua.InspectSides, len(batch), args)
		switch {
		case err != nil:
			return err
		case len(reply.Any) != 2*len(batch):
			return run.Unexpected(lua.InspectSides, reply.Any)
		}
		for i := range batch {
			left, _ := reply.Any[2*i+1].(int64)
			tell(at+i, fmt.Sprint(reply.Any[2*i]), left)
		}
		at += len(batch)
	}
	return nil
}

// millisLeft returns a reply of PTTL as a duration: 0 if there is no key, -1 if
// it has no expiry.
func millisLeft(ms int64) time.Duration {
	switch {
	case ms >= 0:
		return time.Duration(ms) * time.Millisecond
	case ms == -1:
		return -1
	}
	return 0
}

// remember adds what this client knows itself: since when it holds the object,
// and its own waiters.
func remember(e *engine.Engine, key string, in *Object) {
	mine := e.Holders(key)
	for i := range in.Holders {
		h := &in.Holders[i]
		if who, ok := mine[h.ID]; ok && h.Who == (engine.Who{}) {
			h.Who = who
		}
	}
	waiting := e.Waiters(key)
	if len(in.Waiters) == 0 {
		for _, w := range waiting {
			in.Waiters = append(in.Waiters, Waiter{ID: w.ID, Who: w.Who})
		}
		return
	}
	known := make(map[string]engine.Who, len(waiting))
	for _, w := range waiting {
		known[w.ID] = w.Who
	}
	for i := range in.Waiters {
		if w := &in.Waiters[i]; w.Who == (engine.Who{}) {
			w.Who = known[w.ID]
		}
	}
}
