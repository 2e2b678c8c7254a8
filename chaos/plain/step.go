package plain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
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

// A taken is a hold.
type taken struct {
	*latchkey.Hold
	lock   latchkey.Locker
	names  []*name
	belief *belief
	ends   bool // it may be lost
	what   string
}

// take acquires a lock.
func (w *worker) take(ctx context.Context, l latchkey.Locker, b belief, what string, names []*name) *taken {
	opts, ends, text := w.options()
	text = what + text
	call := l.Lock
	switch w.dice.IntN(10) {
	case 0, 1, 2:
		text += " Try"
		call = l.TryLock
	case 3:
		d := w.upTo(0, 60)
		text += fmt.Sprintf(" Try Wait %v", d)
		opts = append(opts, latchkey.Wait(d))
		call = l.TryLock
	}
	if len(names) == 1 {
		wait := names[0].begin()
		defer names[0].end(wait)
	}
	w.note(names, "%v %s ...", w, text)
	h, err := call(ctx, opts...)
	if err != nil {
		w.note(names, "%v %s: %v", w, text, err)
		// On a busy machine a short lease is over before the answer comes.
		if ctx.Err() == nil && !errors.Is(err, latchkey.ErrNotAcquired) && !(ends && errors.Is(err, latchkey.ErrLeaseLost)) {
			w.fail(names[0], "%v: %s: %v", w, text, err)
		}
		return nil
	}
	w.note(names, "%v %s: held as %s for %v", w, text, h.HolderID(), h.Remaining())
	t := &taken{Hold: h, lock: l, names: names, belief: &b, ends: ends, what: text}
	b.who, b.left = h.Holder().String(), h.Remaining
	if b.who == "" || len(names) > 1 {
		b.who = fmt.Sprintf("%p", h) // a lock of locks
	}
	return t
}

func (w *worker) note(names []*name, format string, args ...any) {
	for _, n := range names {
		n.note(format, args...)
	}
}

// believe begins the belief in what was taken.
func (t *taken) believe() {
	for _, n := range t.names {
		n.believe(t.belief)
	}
}

// give gives a hold back in one of the ways that there are.
func (w *worker) give(ctx context.Context, t *taken) {
	for _, n := range t.names {
		n.give(t.belief)
	}
	var errs []error
	how := ""
	switch w.dice.IntN(8) {
	case 0:
		how = "from another goroutine"
		done := make(chan error)
		go func() { done <- t.Unlock(ctx) }()
		errs = append(errs, <-done)
	case 1:
		how = "twice at once"
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := t.Unlock(ctx)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		wg.Wait()
	case 2:
		how = "twice"
		errs = append(errs, t.Unlock(ctx), t.Unlock(ctx))
	case 3:
		how = "async"
		errs = append(errs, <-t.UnlockAsync(ctx))
	case 4:
		how = "cancelled"
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		errs = append(errs, t.Unlock(ctx))
	default:
		errs = append(errs, t.Unlock(ctx))
	}
	w.note(t.names, "%v %s: Unlock %s of %s: %v", w, t.what, how, t.HolderID(), errs)
	good := 0
	for _, err := range errs {
		switch {
		case err == nil:
			good++
		case errors.Is(err, latchkey.ErrLeaseLost) && t.ends:
			good = max(good, 1)
		case !errors.Is(err, latchkey.ErrNotHeld) || errors.Is(err, latchkey.ErrLeaseLost):
			w.fail(t.names[0], "%v: Unlock of %s: %v", w, t.HolderID(), err)
		}
	}
	if good != 1 {
		w.fail(t.names[0], "%v: %d of these Unlocks of %s have given it back: %v", w, good, t.HolderID(), errs)
	}
}

// lock is a step with a lock.
func (w *worker) lock(ctx context.Context, names ...*name) {
	in, cancel, text := w.within(ctx)
	defer cancel()
	if w.chance(30) {
		in = latchkey.WithHolder(in)
		text += " WithHolder"
	}
	l, b, what := w.new(names)
	t := w.take(in, l, b, what+text, names)
	if t == nil {
		return
	}
	t.believe()
	w.stay()
	if w.chance(25) {
		w.nested(ctx, t)
	}
	if w.chance(15) {
		d := w.upTo(3, 50)
		err := t.Extend(ctx, d)
		w.note(names, "%v Extend %v of %s: %v", w, d, t.HolderID(), err)
		if err != nil && !t.ends {
			w.fail(names[0], "%v: Extend of %s: %v", w, t.HolderID(), err)
		}
	}
	w.give(ctx, t)
}

// nested takes what is held once more.
func (w *worker) nested(ctx context.Context, t *taken) {
	l, b, what := t.lock, *t.belief, "nested"
	if _, ok := l.(*rwlock.Lock); ok && !b.read && w.chance(50) {
		l, b.read, what = rwlock.New(w.Client, t.names[0].key, rwlock.WriterPreference(preference)).ReadLock(), true, "nested read"
	}
	opts, ends, text := w.options()
	w.note(t.names, "%v %s%s ...", w, what, text)
	h, err := l.TryLock(t.Context(), opts...)
	if err != nil {
		w.note(t.names, "%v %s%s: %v", w, what, text, err)
		switch {
		case errors.Is(err, latchkey.ErrReentry) && !strings.HasPrefix(t.what, "nonreentrant"), t.ends, t.Context().Err() != nil:
		case !errors.Is(err, latchkey.ErrReentry):
			w.fail(t.names[0], "%v: %s%s: %v", w, what, text, err)
		}
		return
	}
	w.note(t.names, "%v %s%s: held as %s for %v", w, what, text, h.HolderID(), h.Remaining())
	inner := &taken{Hold: h, lock: l, names: t.names, belief: &b, ends: ends || t.ends, what: what + text}
	b.left = h.Remaining
	if h.Remaining() <= 0 { // what is lost is nothing
		b.left = func() time.Duration { return 0 }
	}
	inner.believe()
	w.stay()
	w.give(ctx, inner)
}

// semaphore is a step with permits that nobody owns.
func (w *worker) semaphore(ctx context.Context, n *name) {
	in, cancel, text := w.within(ctx)
	defer cancel()
	s := semaphore.New(w.Client, n.key)
	b := &belief{who: w.String(), n: 1 + w.dice.IntN(2), left: func() time.Duration { return 1 }}
	call := func() error { return s.Acquire(in, b.n) }
	switch w.dice.IntN(10) {
	case 0, 1, 2:
		text += " Try"
		call = func() error { return s.TryAcquire(in, b.n) }
	case 3:
		d := w.upTo(0, 60)
		text += fmt.Sprintf(" Try Wait %v", d)
		call = func() error { return s.TryAcquire(in, b.n, latchkey.Wait(d)) }
	}
	wait := n.begin()
	n.note("%v Acquire %d%s ...", w, b.n, text)
	err := call()
	n.end(wait)
	n.note("%v Acquire %d%s: %v", w, b.n, text, err)
	if err != nil {
		if in.Err() == nil && !errors.Is(err, latchkey.ErrNotAcquired) {
			w.fail(n, "%v: Acquire: %v", w, err)
		}
		return
	}
	n.believe(b)
	w.stay()
	n.give(b)
	err = s.Release(ctx, b.n)
	n.note("%v Release %d: %v", w, b.n, err)
	n.check(n, err)
}

// permits is a step with permits that have leases.
func (w *worker) permits(ctx context.Context, n *name) {
	in, cancel, text := w.within(ctx)
	defer cancel()
	s := permitsemaphore.New(w.Client, n.key)
	opts, ends, more := w.options()
	for strings.Contains(more, "HoldAtLeast") {
		opts, ends, more = w.options()
	}
	text += more
	count := 1 + w.dice.IntN(2)
	call := s.AcquireN
	if w.chance(30) {
		text += " Try"
		call = s.TryAcquireN
	}
	wait := n.begin()
	n.note("%v Acquire %d%s ...", w, count, text)
	all, err := call(in, count, opts...)
	n.end(wait)
	if err != nil {
		n.note("%v Acquire %d%s: %v", w, count, text, err)
		if in.Err() == nil && !errors.Is(err, latchkey.ErrNotAcquired) && !(ends && errors.Is(err, latchkey.ErrLeaseLost)) {
			w.fail(n, "%v: Acquire%s: %v", w, text, err)
		}
		return
	}
	var bs []*belief
	for _, p := range all {
		n.note("%v Acquire %d%s: %s for %v", w, count, text, p.ID(), p.Remaining())
		b := &belief{who: p.ID(), n: 1, left: p.Remaining}
		bs = append(bs, b)
		n.believe(b)
	}
	w.stay()
	for i, p := range all {
		if w.chance(20) {
			d := w.upTo(3, 50)
			err := p.Extend(ctx, d)
			n.note("%v Extend %v of %s: %v", w, d, p.ID(), err)
			if err != nil && !ends {
				w.fail(n, "%v: Extend of %s: %v", w, p.ID(), err)
			}
		}
		n.give(bs[i])
		switch {
		case w.chance(15):
			_, err := s.TryRelease(ctx, p.ID())
			n.note("%v TryRelease of %s by its id: %v", w, p.ID(), err)
			n.check(n, err)
			_ = p.Release(ctx)
		case w.chance(20):
			err := p.Release(ctx)
			again := p.Release(ctx)
			n.note("%v Release twice of %s: %v %v", w, p.ID(), err, again)
			if !errors.Is(again, latchkey.ErrNotHeld) {
				w.fail(n, "%v: second Release of %s: %v", w, p.ID(), again)
			}
		default:
			err := p.Release(ctx)
			n.note("%v Release of %s: %v", w, p.ID(), err)
			if err != nil && !(ends && errors.Is(err, latchkey.ErrLeaseLost)) {
				w.fail(n, "%v: Release of %s: %v", w, p.ID(), err)
			}
		}
	}
}

// latch is a step with a latch: it begins a count and ends it, or waits.
func (w *worker) latch(ctx context.Context, n *name) {
	l := countdownlatch.New(w.Client, n.key)
	if w.chance(70) {
		in, cancel, text := w.within(ctx)
		defer cancel()
		wait := n.begin()
		n.note("%v Await%s ...", w, text)
		since := n.passed()
		err := l.Await(in)
		n.end(wait)
		n.note("%v Await%s: %v", w, text, err)
		if err != nil && in.Err() == nil {
			w.fail(n, "%v: Await: %v", w, err)
		}
		n.mu.Lock()
		early := err == nil && n.closed > 0 && n.closed < since
		n.mu.Unlock()
		if early {
			w.fail(n, "%v: Await has returned, and the latch is closed", w)
		}
		return
	}
	count := 1 + w.dice.IntN(3)
	n.note("%v TrySetCount %d ...", w, count)
	set, err := l.TrySetCount(ctx, int64(count))
	n.note("%v TrySetCount %d: %v %v", w, count, set, err)
	if n.check(n, err); err != nil || !set {
		return
	}
	n.mu.Lock()
	n.closed = n.passed()
	n.mu.Unlock()
	for i := range count {
		w.stay()
		if i == count-1 {
			n.mu.Lock()
			n.closed = 0
			n.mu.Unlock()
		}
		n.note("%v CountDown ...", w)
		err := l.CountDown(ctx)
		n.note("%v CountDown: %v", w, err)
		n.check(n, err)
	}
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
