package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/watchdog"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// New returns the lock of a kind that is a single lock, nil for other kinds.
func New(kind string, c *latchkey.Client, name string) latchkey.Locker {
	switch kind {
	case "rlock", "multilock":
		return rlock.New(c, name)
	case "nonreentrant":
		return rlock.New(c, name, rlock.NonReentrant())
	case "fenced":
		return rlock.New(c, name, rlock.Fenced())
	case "spin":
		return rlock.New(c, name, rlock.Spin(rlock.Backoff{}))
	case "fairlock":
		return fairlock.New(c, name)
	}
	return nil
}

// A taken is a hold, or a permit, and what is recorded of it.
type taken struct {
	ids  []int64 // of the acquires; several for a lock of locks
	keys []string
	who  string
	left func() time.Duration
	lost <-chan struct{}
	back func(context.Context) error
	op   history.Op // Release or RRelease
	// outer is the hold of the same holder, which is lost when this one is.
	outer *taken
}

// believe brings the record of what the library tells up to date: nobody believes in
// what he has been told is lost, however long its lease.
func (w *worker) believe(t *taken) (now int64, still bool) {
	now = history.Now()
	left := t.left()
	for _, id := range t.ids {
		w.rec.Change(id, func(e *history.Entry) {
			if left > 0 {
				e.Until = now + min(int64(left), int64(time.Hour))
			} else {
				e.Until = min(e.Until, now)
			}
		})
	}
	return now, left > 0
}

// began records when the window of what has just been taken began, and until when it
// is believed in. What a fair lock's waiter is given by a message has a lease that
// nobody here knows.
func (w *worker) began(t *taken, lease time.Duration) {
	defer w.believe(t)
	if w.kind == "fairlock" {
		return
	}
	if lease == 0 {
		lease = Lease
	}
	var begin watchdog.Instant
	whole := watchdog.NewWindow(begin, lease).Remaining(begin) // what the library believes in
	now := history.Now()
	since := now + int64(t.left()-whole)
	for _, id := range t.ids {
		w.rec.Change(id, func(e *history.Entry) { e.Since = min(since, e.Return) })
	}
}

// hold keeps what was taken for a while.
func (w *worker) hold(ctx context.Context, t *taken, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.lost:
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
			w.believe(t)
			continue
		}
		return
	}
}

// give gives back what was taken; to is the hold count that is left.
func (w *worker) give(t *taken, to int) error {
	now, still := w.believe(t)
	if still { // and from now on no longer
		for _, id := range t.ids {
			w.rec.Change(id, func(e *history.Entry) { e.Until = now })
		}
	}
	ids := make([]int64, len(t.keys))
	for i, key := range t.keys {
		ids[i] = w.begin(history.Entry{Key: key, Op: t.op, Owner: t.who, N: to, Call: now})
	}
	err := t.back(context.Background())
	w.end(ids, err, nil)
	if o := t.outer; o != nil && errors.Is(err, latchkey.ErrLeaseLost) && o.left() <= 0 {
		// A fair lock's Unlock lets the next one in where it finds that all is lost, and
		// that may have it before we come to see what has become of the outer hold.
		for _, id := range o.ids {
			w.rec.Change(id, func(e *history.Entry) { e.Until = min(e.Until, now) })
		}
	}
	if err == nil {
		for _, id := range t.ids {
			w.rec.Change(id, func(e *history.Entry) { e.Given = true })
		}
	}
	return err
}

// lease chooses the lease of an acquire of the i-th object: now and then a fixed one,
// else 0. The first object has none that is fixed, so it is always given back: what is
// left to its lease stays for as long as a server's clock is set back meanwhile, and
// all objects of a kind might be.
func (w *worker) lease(i int) time.Duration {
	if i > 0 && w.chance(20) {
		return time.Duration(200+w.r.IntN(1500)) * time.Millisecond
	}
	return 0
}

// leased is the option for that lease.
func leased(lease time.Duration) []latchkey.LockOption {
	if lease == 0 {
		return nil
	}
	return []latchkey.LockOption{latchkey.Lease(lease)}
}

// options are those of an acquire of a lock with that lease. MaxHold is longer than the
// first lease. HoldAtLeast is for chaos plain: the model knows of no lock that is closed
// and has no holder.
func (w *worker) options(lease time.Duration) []latchkey.LockOption {
	if lease == 0 && w.chance(10) {
		return []latchkey.LockOption{latchkey.MaxHold(Lease + time.Duration(w.r.IntN(2000))*time.Millisecond)}
	}
	return leased(lease)
}

// take acquires a lock in one of the ways that there are.
func (w *worker) take(ctx context.Context, l latchkey.Locker, e history.Entry, keys []string, lease time.Duration) (*taken, *latchkey.Hold, error) {
	if e.Op == "" {
		e.Op = history.Acquire
	}
	var line atomic.Int64
	ctx = context.WithValue(ctx, queued{}, &line)
	ids := make([]int64, len(keys))
	for i, key := range keys {
		e.Key = key
		ids[i] = w.begin(e)
	}
	var h *latchkey.Hold
	opts := w.options(lease)
	err := w.prompt(ctx, func() (err error) {
		switch n := w.r.IntN(100); {
		case n < 25:
			h, err = l.TryLock(ctx, opts...)
		case n < 40:
			h, err = l.TryLock(ctx, append(opts, latchkey.Wait(time.Duration(w.r.IntN(200))*time.Millisecond))...)
		default:
			h, err = l.Lock(ctx, opts...)
		}
		return err
	})
	w.end(ids, err, func(e *history.Entry) {
		e.Until, e.Token, e.Queued = e.Return, h.Token(), line.Load()
	})
	if err != nil {
		return nil, nil, err
	}
	t := &taken{ids: ids, keys: keys, who: e.Owner, left: h.Remaining, lost: h.Lost(), back: h.Unlock, op: history.Release}
	if e.Op == history.RAcquire {
		t.op = history.RRelease
	}
	w.began(t, lease)
	return t, h, nil
}

// abandon leaves a hold to its lease.
func (w *worker) abandon(t *taken) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, t.ids...)
}

// lock is a step with a lock of a single name.
func (w *worker) lock(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	l := New(w.kind, w.client, name)
	in, cancel := w.within(ctx)
	defer cancel()
	lease := w.lease(i)
	stops := i > 0 && w.kind == "fenced" && w.chance(10)
	if stops {
		lease = time.Duration(40+w.r.IntN(60)) * time.Millisecond
	}
	t, h, err := w.take(in, l, history.Entry{Owner: w.owner()}, []string{name}, lease)
	if err != nil {
		return err
	}
	if stops { // for longer than its lease, and does not look at its Context then
		w.rest(ctx, lease+time.Duration(w.r.IntN(40))*time.Millisecond)
		w.offer(Write{name, h.Token()})
		_ = w.give(t, 0)
		return nil
	}
	if w.kind == "fenced" && w.chance(40) {
		w.offer(Write{name, h.Token()})
	}
	if w.kind != "nonreentrant" && w.chance(10) {
		inner, _, err := w.take(h.Context(), l, history.Entry{Owner: t.who, Nested: true}, []string{name}, 0)
		if err == nil {
			inner.outer = t
			w.hold(ctx, inner, w.stay())
			_ = w.give(inner, 1)
		}
	}
	w.hold(ctx, t, w.stay())
	if lease > 0 && w.chance(3) {
		w.abandon(t)
		return nil
	}
	err = w.give(t, 0)
	if w.kind == "fenced" && w.chance(40) {
		w.rest(ctx, time.Duration(w.r.IntN(5))*time.Millisecond)
		w.offer(Write{name, h.Token()}) // too late: somebody else may have written
	}
	if errors.Is(err, latchkey.ErrNotHeld) {
		return nil
	}
	return err
}

// rwlock is a step with a read-write lock.
func (w *worker) rwlock(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	rw := rwlock.New(w.client, name, rwlock.WriterPreference(200*time.Millisecond))
	in, cancel := w.within(ctx)
	defer cancel()
	keys := []string{name}
	if w.chance(60) {
		t, _, err := w.take(in, rw.ReadLock(), history.Entry{Op: history.RAcquire, Owner: w.owner()}, keys, w.lease(i))
		if err != nil {
			return err
		}
		w.hold(ctx, t, w.stay())
		_ = w.give(t, 0)
		return nil
	}
	t, h, err := w.take(in, rw.WriteLock(), history.Entry{Owner: w.owner()}, keys, w.lease(i))
	if err != nil {
		return err
	}
	w.hold(ctx, t, w.stay())
	if !w.chance(20) {
		_ = w.give(t, 0)
		return nil
	}
	reader, _, err := w.take(h.Context(), rw.ReadLock(), history.Entry{Op: history.RAcquire, Owner: t.who}, keys, 0)
	_ = w.give(t, 0)
	if err == nil { // downgraded
		w.hold(ctx, reader, w.stay())
		_ = w.give(reader, 0)
	}
	return nil
}

// multi is a step with a lock of two locks, or with one of its members.
func (w *worker) multi(ctx context.Context, _ int) error {
	const members = 3
	in, cancel := w.within(ctx)
	defer cancel()
	first := w.r.IntN(members)
	keys := []string{w.cfg.Name(w.kind, first)}
	l := New(w.kind, w.client, keys[0])
	least := first
	if w.chance(70) {
		next := (first + 1) % members
		least = min(first, next)
		keys = append(keys, w.cfg.Name(w.kind, next))
		l = multilock.New(l, New(w.kind, w.client, keys[1]))
	}
	return w.whole(ctx, in, l, keys, w.lease(least))
}

// group is a step with a lock on some values of a group.
func (w *worker) group(ctx context.Context, i int) error {
	const values = 4
	in, cancel := w.within(ctx)
	defer cancel()
	name := w.cfg.Name(w.kind, i)
	var set, keys []string
	for _, v := range w.r.Perm(values)[:1+w.r.IntN(2)] {
		set = append(set, fmt.Sprint(v))
		keys = append(keys, fmt.Sprintf("%s/%d", name, v))
	}
	return w.whole(ctx, in, multilock.NewGroup(w.client, name, set...), keys, w.lease(i))
}

// whole takes a lock of locks and gives it back.
func (w *worker) whole(ctx, in context.Context, l latchkey.Locker, keys []string, lease time.Duration) error {
	t, _, err := w.take(in, l, history.Entry{Owner: w.owner()}, keys, lease)
	if err != nil {
		return err
	}
	w.hold(ctx, t, w.stay())
	_ = w.give(t, 0)
	return nil
}
