package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/latchkey-go/latchkey/chaos/history"
)

// exclusion checks that no two holds that exclude each other are believed in at the
// same moment.
func (v *Verdict) exclusion(key, kind string, entries []history.Entry, losses []Loss) {
	if kind == "semaphore" || kind == "countdownlatch" {
		return // nothing is held
	}
	capacity := 1
	var holds []*history.Entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.Op == history.Set && e.Out == history.OK:
			capacity = max(capacity, e.N)
		case (e.Op == history.Acquire || e.Op == history.RAcquire) && e.Out == history.OK && !e.Nested && e.Until > e.Return:
			holds = append(holds, e)
		}
	}
	v.Holds += len(holds)
	slices.SortFunc(holds, func(a, b *history.Entry) int { return cmp.Compare(a.Return, b.Return) })
	var inside []*history.Entry
	for _, h := range holds {
		inside = slices.DeleteFunc(inside, func(e *history.Entry) bool { return e.Until <= h.Return })
		against := slices.DeleteFunc(slices.Clone(inside), func(e *history.Entry) bool {
			return e.Owner == h.Owner || e.Op == history.RAcquire && h.Op == history.RAcquire
		})
		if len(against) >= capacity {
			v.overlap(key, capacity, h, against, losses)
		}
		inside = append(inside, h)
	}
}

// overlap judges a hold that was granted while others were believed in.
func (v *Verdict) overlap(key string, capacity int, h *history.Entry, against []*history.Entry, losses []Loss) {
	first := *against[0]
	against = slices.DeleteFunc(against, func(a *history.Entry) bool {
		return slices.ContainsFunc(losses, func(l Loss) bool { return l.excuses(a, h) })
	})
	if len(against) < capacity {
		v.Doubles++
		v.LongestTwo = max(v.LongestTwo, time.Duration(min(first.Until, h.Until)-h.Return))
		return
	}
	near := []history.Entry{*h}
	for _, a := range against {
		near = append(near, *a)
	}
	v.Violations = append(v.Violations, Violation{Key: key, What: fmt.Sprintf("granted while %d had it", len(against)), Near: near})
}

// tokens checks that whoever asked after another had been granted has the greater
// token. A loss of data is no excuse, but for a holder that was handed in memory what had been
// granted before: with its token, which the resource refuses.
func tokens(key string, entries []history.Entry, losses []Loss) []Violation {
	var with []*history.Entry
	for i := range entries {
		if e := &entries[i]; e.Out == history.OK && e.Token != 0 {
			with = append(with, e)
		}
	}
	slices.SortFunc(with, func(a, b *history.Entry) int { return cmp.Compare(a.Token, b.Token) })
	var found []Violation
	var first *history.Entry // of all with a greater token, the one granted first
	for i := len(with) - 1; i >= 0; i-- {
		e := with[i]
		before := func(l Loss) bool { return e.Since < e.Call && l.had(e) && first.Return >= l.From }
		switch {
		case i > 0 && with[i-1].Token == e.Token:
			found = append(found, Violation{Key: key, What: fmt.Sprintf("token %d was given twice", e.Token), Near: []history.Entry{*with[i-1], *e}})
		case first != nil && first.Return < e.Call && !slices.ContainsFunc(losses, before):
			found = append(found, Violation{Key: key, What: fmt.Sprintf("token %d was given after %d", e.Token, first.Token), Near: []history.Entry{*first, *e}})
		}
		if first == nil || e.Return < first.Return {
			first = e
		}
	}
	return found
}

// order checks that nobody was served before one who already stood in the queue when
// he came. Those who gave up do not count, nor those who lost their place by a clock
// that stepped. After a loss of more nothing is known.
func order(key string, entries []history.Entry, losses []Loss) []Violation {
	if slices.ContainsFunc(losses, func(l Loss) bool { return l.Lease == 0 }) {
		return nil
	}
	var served []*history.Entry
	for i := range entries {
		if e := &entries[i]; e.Op == history.Acquire && e.Out == history.OK && !e.Nested {
			served = append(served, e)
		}
	}
	slices.SortFunc(served, func(a, b *history.Entry) int { return cmp.Compare(a.Return, b.Return) })
	var found []Violation
	var latest *history.Entry // of all served so far, the one who came last
	for _, e := range served {
		stood := func(l Loss) bool { return e.Call <= l.To && e.Return >= l.From }
		if latest != nil && e.Queued != 0 && e.Queued < latest.Call && !slices.ContainsFunc(losses, stood) {
			found = append(found, Violation{Key: key, What: "served after one who came when it stood in the queue", Near: []history.Entry{*latest, *e}})
		}
		if latest == nil || e.Call > latest.Call {
			latest = e
		}
	}
	return found
}
