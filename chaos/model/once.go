package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/latchkey-go/latchkey/chaos/history"
)

// forgets says whether l may have made Redis forget the runs of a job.
func (l Loss) forgets() bool { return l.Lease == 0 || l.Step >= history.Kept }

// fire checks the calls for one fire of a job: it is done once at most, no run begins
// after that, there are no more runs than attempts, and a caller that was told that there is
// nothing to do was told the truth. What Redis may have forgotten meanwhile is not
// looked at.
func (v *Verdict) fire(key string, entries []history.Entry, losses []Loss) {
	from, to := int64(math.MaxInt64), int64(0)
	for _, e := range entries {
		from, to = min(from, e.Call), max(to, e.Return)
	}
	if slices.ContainsFunc(losses, func(l Loss) bool { return l.forgets() && from <= l.To && to >= l.From }) {
		return
	}
	wrong := func(what string, near ...history.Entry) {
		v.Violations = append(v.Violations, Violation{Key: key, What: what, Near: near})
	}
	var runs, done []history.Entry
	var told *history.Entry // that there is nothing to do
	attempts := 0           // that are allowed
	perhaps := false        // it may be done, or have been tried, by who does not know it
	for _, e := range entries {
		switch {
		case e.Op == history.Acquire && e.Out == history.OK:
			runs, attempts = append(runs, e), e.N
		case e.Op == history.Release && e.N == 1 && e.Out == history.OK:
			done = append(done, e)
		case e.Op == history.Release && e.N == 1:
			perhaps = true
		case e.Op == history.Do && e.Out == history.OK && told == nil:
			told = &e
		case e.Op == history.Do && e.Out != history.OK && e.Out != history.Refused:
			perhaps = true
		}
	}
	v.Explained += len(entries)
	if len(done) > 1 {
		wrong(fmt.Sprintf("done %d times", len(done)), done...)
	}
	for _, r := range runs {
		if len(done) == 1 && r.Call > done[0].Return {
			wrong("run after it was done", done[0], r)
		}
	}
	if len(runs) > max(attempts, 1) {
		wrong(fmt.Sprintf("run %d times, where %d are allowed", len(runs), attempts), runs...)
	}
	if told == nil || perhaps {
		return
	}
	switch {
	case len(runs) == 0:
		wrong("nothing to do, and nobody has run it", *told)
	case len(done) == 0 && len(runs) < attempts:
		wrong(fmt.Sprintf("nothing to do after %d of %d attempts, and it is not done", len(runs), attempts), append(runs, *told)...)
	}
}
