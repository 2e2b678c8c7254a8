package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// Kinds are the kinds of object whose histories can be checked, with the state
// machine of each.
var Kinds = map[string]porcupine.Model{
	"rlock":           Lock(false),
	"nonreentrant":    Lock(false),
	"fenced":          Lock(false),
	"spin":            Lock(false),
	"fairlock":        Lock(true), // others queue
	"multilock":       Lock(true), // takes members for a moment, and gives them back
	"group":           Lock(true), // all values or none,
	"rwlock":          RW(),
	"semaphore":       Semaphore(false),
	"permitsemaphore": Permits(false),
	"countdownlatch":  Latch(),
}

// A Loss is a time in which the servers may have forgotten something: by a restart
// without data, a failover, FLUSHALL. What was granted before its end may be granted
// again after its beginning.
//
// With a Lease, nothing but leases has ended before its time, by a clock that stepped
// forward. No lease is longer than that, so that nobody has been able to believe in
// one for longer after the Loss; but one that a fair lock's waiter is given by a message
// is as long as its client is alive for sure. Step is by how much the clock stepped.
type Loss struct {
	From, To int64
	Lease    time.Duration
	Step     time.Duration
}

// Forgot says whether e is an acquire without an answer of permits that nobody owns,
// of which Redis may not have known any more, behind a clock that stepped, when it was
// taken back: what it took then stays taken. It is taken back at once, so e has ended
// no longer than leaving before that.
func (l Loss) Forgot(e *history.Entry, leaving time.Duration) bool {
	return l.Step+leaving > engine.Remembered && e.Kind == "semaphore" && e.Op == history.Acquire &&
		(e.Out == history.Unknown || e.Out == history.Pending) &&
		e.Call <= l.To && e.Return >= l.From-int64(leaving)
}

// had says whether e is, or may be, of what was granted before the end of l.
func (l Loss) had(e *history.Entry) bool { return cmp.Or(e.Since, e.Call) <= l.To }

// early returns how e, a hold that others may have been granted, may have ended
// before its time.
func (l Loss) early(e *history.Entry) (end history.Entry, may bool) {
	if l.Lease == 0 || e.Out != history.OK || !l.had(e) || e.Given && e.Until < l.From {
		return end, false
	}
	if e.Until > l.To+int64(l.Lease) {
		return end, false // it was renewed after the Loss, and so was there
	}
	switch e.Op {
	case history.Acquire:
		end.Op = history.Expire
	case history.RAcquire:
		end.Op = history.RExpire
	default:
		return end, false
	}
	end.Worker, end.Kind, end.Key, end.Owner, end.N, end.Out = e.Worker, e.Kind, e.Key, e.Owner, e.N, history.OK
	end.Call, end.Return = l.From, l.To+int64(l.Lease)
	return end, true
}

// excuses says whether b may have been granted what a believes in, because l has
// forgotten what one of them was granted. That may be b, although it heard of it later:
// an answer may be slow, and a hold is handed on in memory.
func (l Loss) excuses(a, b *history.Entry) bool {
	return (l.had(a) && b.Return >= l.From || b.Since != 0 && l.had(b) && a.Return >= l.From) &&
		(l.Lease == 0 || b.Return <= l.To+int64(l.Lease))
}

// handed says whether e was handed in memory what a clock that stepped has ended:
// Redis may have granted it to another, even before e was called.
func (l Loss) handed(e *history.Entry) bool {
	return l.Lease > 0 && e.Op == history.Acquire && e.Out == history.OK && e.Since < e.Call && l.had(e)
}

// handsOn says whether e may be the release that has handed it on, to one of the same
// client whose hold is of the time before l as well. It was answered OK all the same.
func (l Loss) handsOn(e *history.Entry, entries []history.Entry) bool {
	return l.Lease > 0 && e.Op == history.Release && e.Out == history.OK && e.Return >= l.From &&
		slices.ContainsFunc(entries, func(o history.Entry) bool {
			return o.Op == history.Acquire && o.Out == history.OK && o.Party == e.Party && o.Owner != e.Owner &&
				o.Call < e.Return && e.Call < o.Return && l.had(&o)
		})
}

// A Violation is something that must not happen.
type Violation struct {
	Key, What string
	Near      []history.Entry // the calls in question, where that is known
}

func (v Violation) String() string {
	s := v.Key + ": " + v.What
	for _, e := range v.Near {
		s += fmt.Sprintf("\n\t%s %s w%d %s n=%d token=%d call=%d return=%d until=%d given=%v out=%d %s", e.Kind, e.Key, e.Worker, e.Op+" "+history.Op(e.Owner), e.N, e.Token, e.Call, e.Return, e.Until, e.Given, e.Out, e.Err)
	}
	return s
}

// A Verdict is what has come out of a check.
type Verdict struct {
	Calls      int // recorded
	Explained  int // of them, put into an order by a state machine
	Holds      int // looked at for exclusion, and where there are tokens, for those
	Violations []Violation
	Doubles    int           // holds that overlapped another because of a Loss
	LongestTwo time.Duration // for how long
}

// Add adds what has come out of another check.
func (v *Verdict) Add(o Verdict) {
	v.Calls += o.Calls
	v.Explained += o.Explained
	v.Holds += o.Holds
	v.Violations = append(v.Violations, o.Violations...)
	v.Doubles += o.Doubles
	v.LongestTwo = max(v.LongestTwo, o.LongestTwo)
}

// Check looks at all calls, which may be of any number of objects. Up to the first
// loss of more than leases each call must be explained by the state machine of its kind. Exclusion and
// tokens are checked to the end, and holds that overlap because of a loss counted.
// limit bounds the search for one object; one that takes longer is a violation.
// leaving is Leaving, LeavingLate, or longer where requests are discarded for longer.
func Check(entries []history.Entry, losses []Loss, limit, leaving time.Duration) Verdict {
	v := Verdict{Calls: len(entries)}
	byKey := map[string][]history.Entry{}
	for _, e := range entries {
		byKey[e.Key] = append(byKey[e.Key], e)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		v.key(key, byKey[key], losses, limit, leaving)
	}
	return v
}

func (v *Verdict) key(key string, entries []history.Entry, losses []Loss, limit, leaving time.Duration) {
	kind := entries[0].Kind
	if kind == "once" {
		v.exclusion(key, kind, entries, losses)
		if strings.Contains(key, "@") { // else it is for all fires of a job
			v.fire(key, entries, losses)
		}
		return
	}
	if kind == "elect" { // when a candidate has asked for the lock is not known
		v.exclusion(key, kind, entries, losses)
		v.Violations = append(v.Violations, tokens(key, entries, losses)...)
		return
	}
	machine, known := Kinds[kind]
	if !known {
		v.Violations = append(v.Violations, Violation{Key: key, What: "nobody knows how to check a " + kind})
		return
	}
	ops := operations(kind, entries, losses, leaving)
	v.Explained += len(ops)
	switch porcupine.CheckOperationsTimeout(machine, ops, limit) {
	case porcupine.Illegal:
		v.Violations = append(v.Violations, Violation{Key: key, What: "no order of its calls explains their answers", Near: stuck(machine, ops, limit)})
	case porcupine.Unknown:
		v.Violations = append(v.Violations, Violation{Key: key, What: fmt.Sprintf("the search for an order of its %d calls took longer than %v", len(ops), limit)})
	}
	v.exclusion(key, kind, entries, losses)
	v.Violations = append(v.Violations, tokens(key, entries, losses)...)
	if kind == "fairlock" {
		v.Violations = append(v.Violations, order(key, entries, losses)...)
	}
}

// lists are the kinds whose release may give the lock to a waiter of another client,
// or of its own in memory.
var lists = map[string]bool{"rlock": true, "fenced": true, "nonreentrant": true}

// A waiter of such a lock that gives up may be given it in that moment, and gives
// it back: Leaving is for how long others may be refused for it, and LeavingLate
// where the request to give it back may be lost or late itself, and is sent again
// after a second.
const (
	Leaving     = 500 * time.Millisecond
	LeavingLate = Leaving + time.Second
)

// Limits of what is searched for. A ghost is what an acquire without an answer has
// left; it is undone, or ends with its lease, before that.
const (
	ghostLife = 10 * time.Second
	mostOpen  = 10 // calls without an answer, in the search
)

// operations makes of entries what porcupine takes, cut off at the first loss, ends
// of leases included.
func operations(kind string, entries []history.Entry, losses []Loss, leaving time.Duration) []porcupine.Operation {
	cut := int64(history.Forever)
	for _, l := range losses {
		if l.Lease == 0 {
			cut = min(cut, l.From)
		}
	}
	var ghosts, stay, stopped []history.Entry
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b history.Entry) int { return cmp.Compare(a.Call, b.Call) })
	open := 0
	for _, e := range entries {
		if (e.Op == history.CountDown || e.Op == history.Set) && (e.Out == history.Unknown || e.Out == history.Pending) {
			if open++; open > mostOpen {
				cut = min(cut, e.Call)
			}
		}
	}
	given := map[string]bool{} // owners whose release was under way at the cut
	for _, e := range entries {
		if (e.Op == history.Release || e.Op == history.RRelease) && e.Call < cut && e.Return >= cut {
			given[e.Owner] = true
		}
	}
	var kept []history.Entry
	for _, e := range entries {
		if e.Out == history.Refused && (behind(entries, e) || lists[kind] && left(entries, e, leaving)) {
			continue
		}
		if e.Return >= cut && e.Return != history.Forever {
			e.Out = history.Unknown
		}
		e.Given = e.Given && !given[e.Owner]
		unsure := e.Out == history.Unknown || e.Out == history.Pending
		switch {
		case e.Call >= cut || !e.Worth():
			continue
		case !unsure:
			if e.Stopped && e.Out == history.OK && (e.Op == history.Acquire || e.Op == history.RAcquire) {
				stopped = append(stopped, e)
			}
		case e.Op == history.Acquire || e.Op == history.RAcquire:
			if slices.ContainsFunc(losses, func(l Loss) bool { return l.Forgot(&e, leaving) }) {
				stay = append(stay, e)
			}
			ghosts = append(ghosts, e)
			continue
		case e.Op == history.CountDown || e.Op == history.Set:
			e.Return = history.Forever
		case kind == "semaphore" && e.Op == history.Release:
			e.Return = e.Call + 1
		default:
			continue
		}
		kept = append(kept, e)
	}

	var ops []porcupine.Operation
	add := func(e history.Entry) {
		ops = append(ops, porcupine.Operation{ClientId: e.Worker, Input: &e, Call: e.Call, Return: e.Return})
	}
	first := 0
	for _, e := range kept {
		for first < len(ghosts) && ghosts[first].Call+int64(ghostLife) < e.Call {
			first++
		}
		haunted := first < len(ghosts) && ghosts[first].Call <= e.Return ||
			len(stay) > 0 && stay[0].Call <= e.Return ||
			slices.ContainsFunc(stopped, func(g history.Entry) bool { return g.Worker != e.Worker && g.Call <= e.Return && e.Call <= g.Return })
		if haunted && (e.Out == history.Refused || e.Op == history.Read && kind != "countdownlatch") {
			continue
		}
		if end, ok := e.End(); ok && end.Call < cut {
			add(end)
		}
		for _, l := range losses {
			if end, may := l.early(&e); may && end.Return < cut && kind != "semaphore" {
				add(end)
			}
			if lists[kind] && (l.handsOn(&e, entries) || l.handed(&e)) {
				e.Call = min(e.Call, l.From)
			}
		}
		add(e)
	}
	return ops
}

// behind says whether a refused call met another of its own client: then it may have
// been refused for standing behind that one, whoever has the object.
func behind(entries []history.Entry, e history.Entry) bool {
	return slices.ContainsFunc(entries, func(o history.Entry) bool {
		return o.Party == e.Party && o.Worker != e.Worker && (o.Op == history.Acquire || o.Op == history.RAcquire) &&
			o.Call < e.Return && o.Return > e.Call
	})
}

// left says whether somebody else had just given up waiting when a call was refused.
func left(entries []history.Entry, e history.Entry, leaving time.Duration) bool {
	return slices.ContainsFunc(entries, func(o history.Entry) bool {
		return o.Worker != e.Worker && o.Op == history.Acquire && (o.Out == history.None || o.Out == history.Refused) &&
			o.Return > o.Call+int64(time.Millisecond) && o.Call < e.Return && o.Return+int64(leaving) > e.Call
	})
}

// stuck returns where the search for an order got no further: the end of the longest
// order that it has found, and the first calls that fit nowhere behind it.
func stuck(machine porcupine.Model, ops []porcupine.Operation, limit time.Duration) []history.Entry {
	_, info := porcupine.CheckOperationsVerbose(machine, ops, limit)
	var best []int
	for _, partial := range info.PartialLinearizations()[0] {
		if len(partial) > len(best) {
			best = partial
		}
	}
	var rest []int
	for i := range ops {
		if !slices.Contains(best, i) {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(rest, func(a, b int) int { return cmp.Compare(ops[a].Return, ops[b].Return) })
	var near []history.Entry
	for _, i := range slices.Concat(best[max(0, len(best)-10):], rest[:min(8, len(rest))]) {
		near = append(near, *ops[i].Input.(*history.Entry))
	}
	return near
}
