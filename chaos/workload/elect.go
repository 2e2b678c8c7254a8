package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/elect"
)

// elect is a step with an election: a candidate that stands for a while. Its terms are
// recorded as holds of a fenced lock, in which it believes while the context lives.
func (w *worker) elect(ctx context.Context, i int) error {
	name := w.cfg.Name(w.kind, i)
	e := elect.New(w.client, name, elect.Identity(fmt.Sprintf("%s/%d", w.cfg.ID, w.number%2)))
	in, cancel := w.within(ctx)
	defer cancel()
	since := history.Now()
	return e.Run(in, func(held context.Context, term elect.Term) error {
		h, ok := latchkey.HoldFrom(held)
		if !ok {
			panic("a term without a hold")
		}
		left := func() time.Duration {
			if held.Err() != nil {
				return 0
			}
			return h.Remaining()
		}
		t := &taken{keys: []string{name}, who: w.owner(), left: left, lost: h.Lost()}
		t.ids = []int64{w.begin(history.Entry{Key: name, Op: history.Acquire, Owner: t.who, Call: since})}
		w.end(t.ids, nil, func(e *history.Entry) { e.Until, e.Token = e.Return, term.Number })
		w.began(t, 0)
		w.offer(Write{name, term.Number})
		w.hold(held, t, w.stay())
		switch {
		case w.chance(30):
			_ = e.Transfer(held, fmt.Sprintf("p%d/%d", w.r.IntN(3), w.r.IntN(2))) // who may be elsewhere
		case w.chance(30):
			_ = e.Resign(held)
		}
		now, still := w.believe(t)
		if still { // and from now on no longer
			w.rec.Change(t.ids[0], func(e *history.Entry) { e.Until = now })
		}
		if w.chance(20) {
			w.offer(Write{name, term.Number}) // perhaps too late
		}
		since = now
		return nil
	})
}
