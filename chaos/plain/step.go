package plain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// A worker makes one step after the other.
type worker struct {
	*run
	*latchkey.Client
	number, client int
	dice           *rand.Rand
}

func (w *worker) String() string { return fmt.Sprintf("c%d w%02d", w.client, w.number) }

func (w *worker) chance(percent int) bool { return w.dice.IntN(100) < percent }

// upTo returns a random time.
func (w *worker) upTo(least, most int) time.Duration {
	return time.Duration(least+w.dice.IntN(most-least+1)) * time.Millisecond
}

// step does something with one of the names.
func (w *worker) step(ctx context.Context, names []*name) {
	n := names[w.dice.IntN(len(names))]
	switch n.kind {
	case "semaphore":
		w.semaphore(ctx, n)
	case "permitsemaphore":
		w.permits(ctx, n)
	case "countdownlatch":
		w.latch(ctx, n)
	case "multilock":
		set := []*name{n}
		for _, m := range names {
			if m.kind == n.kind && m != n && w.chance(40) {
				set = append(set, m)
			}
		}
		w.lock(ctx, set...)
	default:
		w.lock(ctx, n)
	}
	if w.chance(20) {
		time.Sleep(w.upTo(0, 5))
	}
}

// within returns a context that ends soon, or not at all, and what it is called.
func (w *worker) within(ctx context.Context) (context.Context, context.CancelFunc, string) {
	if w.chance(40) {
		return ctx, func() {}, ""
	}
	d := w.upTo(1, 60)
	if w.chance(50) {
		ctx, cancel := context.WithTimeout(ctx, d)
		return ctx, cancel, fmt.Sprintf(" timeout %v", d)
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }, fmt.Sprintf(" cancel %v", d)
}

// options returns those of an acquire, and whether its hold may be lost.
func (w *worker) options() (opts []latchkey.LockOption, ends bool, text string) {
	add := func(o latchkey.LockOption, format string, args ...any) {
		opts = append(opts, o)
		text += fmt.Sprintf(format, args...)
	}
	least := 1000
	if w.chance(30) {
		d := w.upTo(5, 60)
		if w.chance(40) {
			d = w.upTo(500, 3000)
		}
		if ends, least = true, int(d.Milliseconds()); w.chance(50) {
			add(latchkey.Lease(d), " Lease %v", d)
		} else {
			add(latchkey.MaxHold(d), " MaxHold %v", d)
		}
	}
	if w.chance(15) {
		add(latchkey.Label("batch"), " Label")
	}
	if w.chance(20) {
		d := w.upTo(1, min(20, least))
		add(latchkey.HoldAtLeast(d), " HoldAtLeast %v", d)
	}
	return opts, ends, text
}

// stay holds for a while.
func (w *worker) stay() {
	switch n := w.dice.IntN(100); {
	case n < 50:
	case n < 80:
		time.Sleep(w.upTo(0, 3))
	case n < 98:
		time.Sleep(w.upTo(3, 20))
	default:
		time.Sleep(w.upTo(20, 80))
	}
}

// new returns a lock of a name, and a belief in it.
func (w *worker) new(names []*name) (latchkey.Locker, belief, string) {
	n := names[0]
	kind := n.kind
	if kind == "mixed" {
		kind = []string{"rlock", "fenced", "nonreentrant", "spin"}[w.dice.IntN(4)]
	}
	switch kind {
	case "rlock":
		return rlock.New(w.Client, n.key), belief{}, kind
	case "fenced":
		return rlock.New(w.Client, n.key, rlock.Fenced()), belief{}, kind
	case "nonreentrant":
		return rlock.New(w.Client, n.key, rlock.NonReentrant()), belief{}, kind
	case "spin":
		return rlock.New(w.Client, n.key, rlock.Spin(rlock.Backoff{})), belief{}, kind
	case "fairlock":
		return fairlock.New(w.Client, n.key), belief{}, kind
	case "rwlock":
		rw := rwlock.New(w.Client, n.key, rwlock.WriterPreference(preference))
		if w.chance(60) {
			return rw.ReadLock(), belief{read: true}, "read"
		}
		return rw.WriteLock(), belief{}, "write"
	case "multilock":
		var all []latchkey.Locker
		for _, m := range names {
			all = append(all, rlock.New(w.Client, m.key))
		}
		return multilock.New(all...), belief{}, fmt.Sprint("multi of ", len(all))
	case "group":
		var values []string
		var b belief
		for _, v := range w.dice.Perm(4)[:1+w.dice.IntN(2)] {
			values = append(values, fmt.Sprint(v))
			b.part |= 1 << v
		}
		return multilock.NewGroup(w.Client, n.key, values...), b, "group " + strings.Join(values, ",")
	}
	panic(kind)
}

// probe sees that a name that nobody has can be had.
func (w *worker) probe(ctx context.Context, n *name) {
	var err error
	switch n.kind {
	case "semaphore":
		s := semaphore.New(w.Client, n.key)
		if err = s.TryAcquire(ctx, capacity); err == nil {
			err = s.Release(ctx, capacity)
		}
	case "permitsemaphore":
		var all []*permitsemaphore.Permit
		if all, err = permitsemaphore.New(w.Client, n.key).TryAcquireN(ctx, capacity); err == nil {
			for _, p := range all {
				err = errors.Join(err, p.Release(ctx))
			}
		}
	case "countdownlatch":
		err = countdownlatch.New(w.Client, n.key).Await(ctx)
	default:
		var opts []latchkey.LockOption
		if n.kind == "rwlock" {
			opts = append(opts, latchkey.Wait(preference+slack)) // for a writer that has given up
		}
		l, _, what := w.new([]*name{n})
		n.note("%v probe %s ...", w, what)
		var h *latchkey.Hold
		if h, err = l.TryLock(ctx, opts...); err == nil {
			err = h.Unlock(ctx)
		}
	}
	n.note("%v probe: %v", w, err)
	if err != nil {
		w.fail(n, "%s is refused, and nobody has it: %v", n.key, err)
	}
}
