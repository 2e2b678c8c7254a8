package campaign

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/chaos/model"
	"github.com/latchkey-go/latchkey/chaos/workload"
	"github.com/latchkey-go/latchkey/countdownlatch"
	lnames "github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/once"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// prepare makes the permits where there are none, and records that.
func (x *round) prepare(ctx context.Context, admin *latchkey.Client) error {
	for i := range names {
		for kind, set := range map[string]func(string) (bool, error){
			"semaphore": func(name string) (bool, error) {
				return semaphore.New(admin, name).TrySetPermits(ctx, workload.Capacity)
			},
			"permitsemaphore": func(name string) (bool, error) {
				return permitsemaphore.New(admin, name).TrySetPermits(ctx, workload.Capacity)
			},
		} {
			if !slices.Contains(x.cfg.Kinds, kind) {
				continue
			}
			name := x.base.Name(kind, i)
			id := x.rec.Begin(history.Entry{Worker: -1, Kind: kind, Key: name, Op: history.Set, N: workload.Capacity})
			if _, err := set(name); err != nil {
				return err
			}
			x.rec.Change(id, func(e *history.Entry) { e.Return, e.Out = history.Now(), history.OK })
		}
	}
	return nil
}

// quiet sees that everything is free once nobody works any more, and removes what
// would stay for good. losses and leaving are as for [model.Check].
func (x *round) quiet(ctx context.Context, admin *latchkey.Client, o *outcome, losses []model.Loss, leaving time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 2*workload.Lease+workload.Recheck+10*time.Second)
	defer cancel()
	free := func(name string, l latchkey.Locker) {
		var err error
		for tries := 0; tries < 3; tries++ { // the lease may be over before the answer comes, on a machine that is busy
			var h *latchkey.Hold
			if h, err = l.Lock(ctx); err == nil {
				err = h.Unlock(ctx)
			}
			if !errors.Is(err, latchkey.ErrLeaseLost) {
				break
			}
		}
		if err != nil {
			o.fail("%s is not free in the end: %v", name, err)
		}
	}
	for _, kind := range x.cfg.Kinds {
		for i := range names {
			name := x.base.Name(kind, i)
			switch kind {
			case "rwlock":
				free(name, rwlock.New(admin, name).WriteLock())
			case "semaphore":
				s := semaphore.New(admin, name)
				least, most := x.owed(name, losses, leaving)
				x.conserved(ctx, o, name, s.AvailablePermits, least, most)
				_, err := s.Delete(ctx)
				x.gone(o, name, err)
			case "permitsemaphore":
				s := permitsemaphore.New(admin, name)
				x.conserved(ctx, o, name, s.AvailablePermits, workload.Capacity, workload.Capacity)
				_, err := s.Delete(ctx)
				x.gone(o, name, err)
			case "once":
				job, _ := workload.Job(admin, name, i)
				x.ended(ctx, o, name, job)
			case "elect":
				free(name, rlock.New(admin, lnames.Election(name)))
			case "countdownlatch":
				_, err := countdownlatch.New(admin, name).Delete(ctx)
				x.gone(o, name, err)
			default:
				if l := workload.New(kind, admin, name); l != nil {
					free(name, l)
				}
			}
		}
	}
}

// owed returns how many permits a semaphore without owners must have in the end: those
// whose holder has died are gone, and a release without an answer may have brought
// some back. What an acquire without an answer took has been undone, unless Redis had
// forgotten it.
func (x *round) owed(name string, losses []model.Loss, leaving time.Duration) (least, most int) {
	if x.lossy {
		return 0, 1 << 30
	}
	least, most = workload.Capacity, workload.Capacity
	for _, e := range x.rec.All() {
		if e.Key != name {
			continue
		}
		switch {
		case e.Op == history.Acquire && e.Out == history.OK:
			least, most = least-e.N, most-e.N
		case e.Op == history.Acquire && (e.Out == history.Pending || x.fault.Children && e.Out == history.Unknown):
			least -= e.N // who was killed cannot undo it
		case slices.ContainsFunc(losses, func(l model.Loss) bool { return l.Forgot(&e, leaving) }):
			least -= e.N
		case e.Op == history.Release && e.Out == history.OK:
			least, most = least+e.N, most+e.N
		case e.Op == history.Release && e.Out != history.None:
			most += e.N
		}
	}
	return least, most
}

// conserved waits until as many permits are available as must be.
func (x *round) conserved(ctx context.Context, o *outcome, name string, available func(context.Context) (int, error), least, most int) {
	has := -1 // not known
	for {
		n, err := available(ctx)
		switch {
		case ctx.Err() != nil || err != nil:
			o.fail("%s has %d permits in the end, not %d to %d: %v", name, has, least, most, err)
			return
		case least <= n && n <= most:
			return
		}
		has = n
		wait(ctx, 50*time.Millisecond)
	}
}

// ended waits until no run of a job goes on.
func (x *round) ended(ctx context.Context, o *outcome, name string, job *once.Job) {
	for {
		runs, err := job.Runs(ctx, 1000)
		i := slices.IndexFunc(runs, func(r once.Run) bool { return r.Outcome == once.Running })
		switch {
		case err != nil:
			o.fail("%s: %v", name, err)
			return
		case i < 0:
			return
		case ctx.Err() != nil:
			o.fail("%s still runs in the end: %+v", name, runs[i])
			return
		}
		wait(ctx, 50*time.Millisecond)
	}
}

func (x *round) gone(o *outcome, name string, err error) {
	if err != nil {
		o.fail("%s: %v", name, err)
	}
}
