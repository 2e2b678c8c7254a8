package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/once"
)

const (
	// firePeriod is how far the fires of a job are apart.
	firePeriod = 25 * time.Millisecond
	// noted is how long a run may take to be noted so that it is known to be: one whose
	// note is refused, or not answered, is asked for again for longer.
	noted = time.Second
)

// errRun is the error of a run that fails.
var errRun = errors.New("this run fails")

// Job returns the i-th job, and how many attempts it has for a fire: one that is tried
// again, one that also never overlaps, and one that is not tried again.
func Job(c *latchkey.Client, name string, i int) (job *once.Job, attempts int) {
	opts := []once.Option{once.Keep(history.Kept)}
	attempts = [...]int{3, 2, 1}[i%3]
	if attempts > 1 {
		opts = append(opts, once.OnFailure(once.Retry(attempts-1)))
	}
	if i%3 == 1 {
		opts = append(opts, once.NoOverlap())
	}
	return once.New(c, name, opts...), attempts
}

// once is a step with a job, for its present fire or one just before.
func (w *worker) once(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	job, attempts := Job(w.client, name, i)
	in, cancel := w.within(ctx)
	defer cancel()
	at := history.Now()/int64(firePeriod) - w.r.Int64N(3)
	key := fmt.Sprintf("%s@%d", name, at)
	keys := []string{key}
	if i%3 == 1 {
		keys = append(keys, name) // the runs of all fires exclude each other
	}
	id := []int64{w.begin(history.Entry{Key: key, Op: history.Do, N: attempts})}
	since := history.Now()
	var t *taken
	var end []int64 // of the last run
	var ended int64
	works := false
	_, err := job.Do(in, time.UnixMilli(at+1), func(held context.Context) error {
		if end != nil { // who begins again has no other run
			w.close(end, history.Unknown)
		}
		h, ok := latchkey.HoldFrom(held)
		if !ok {
			panic("a run without a hold")
		}
		t = &taken{keys: keys, who: w.owner(), left: h.Remaining, lost: h.Lost(), op: history.Release}
		for _, k := range keys {
			t.ids = append(t.ids, w.begin(history.Entry{Key: k, Op: history.Acquire, Owner: t.who, N: attempts, Call: since}))
		}
		w.end(t.ids, nil, func(e *history.Entry) { e.Until = e.Return })
		if i%3 == 1 { // a fair lock
			w.believe(t)
		} else {
			w.began(t, 0)
		}
		works = !w.chance(15)
		w.hold(held, t, w.stay())
		now, still := w.believe(t)
		if still {
			for _, id := range t.ids {
				w.rec.Change(id, func(e *history.Entry) { e.Until = now })
			}
		}
		n := 0
		if works {
			n = 1
		}
		end, ended = end[:0:0], now
		for _, k := range keys {
			end = append(end, w.begin(history.Entry{Key: k, Op: history.Release, Owner: t.who, N: n, Call: now}))
		}
		since = now
		if !works {
			return errRun
		}
		return nil
	})
	out := history.Unknown
	switch {
	case err == nil:
		out = history.OK
	case err == errRun: //nolint:errorlint // nothing is joined to it
		out = history.Refused
	}
	if end != nil {
		known := out
		if history.Now()-ended > int64(noted) || out == history.Refused {
			known = history.Unknown
		}
		w.close(end, known)
	}
	w.close(id, out)
	w.rest(ctx, time.Duration(w.r.IntN(10))*time.Millisecond)
	return err
}

// close records the outcome of calls.
func (w *worker) close(ids []int64, out history.Outcome) {
	now := history.Now()
	for _, id := range ids {
		w.rec.Change(id, func(e *history.Entry) { e.Return, e.Out = now, out })
	}
}
