package model_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/chaos/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type h = history.Entry

// call makes a call from one time to another; until is only for acquires.
func call(op history.Op, owner string, from, to int64, change ...func(*h)) h {
	e := h{Op: op, Owner: owner, Call: from, Return: to, Out: history.OK, N: 1}
	if op == history.Acquire || op == history.RAcquire {
		e.Since, e.Until, e.Given = from, to, true
	}
	if op == history.Release {
		e.N = 0
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

func n(n int) func(*h)                { return func(e *h) { e.N = n } }
func token(n int64) func(*h)          { return func(e *h) { e.Token = n } }
func until(t int64) func(*h)          { return func(e *h) { e.Until = t } }
func since(t int64) func(*h)          { return func(e *h) { e.Since = t } }
func queued(t int64) func(*h)         { return func(e *h) { e.Queued = t } }
func lost(at int64) func(*h)          { return func(e *h) { e.Until, e.Given = at, false } }
func nested(e *h)                     { e.Nested = true }
func refused(e *h)                    { e.Out, e.Given = history.Refused, false }
func stopped(e *h)                    { e.Stopped = true }
func unknown(e *h)                    { e.Out, e.Return, e.Given = history.Unknown, history.Forever, false }
func unanswered(e *h)                 { e.Out, e.Given = history.Unknown, false }
func at(l ...model.Loss) []model.Loss { return l }

const (
	acq, rel   = history.Acquire, history.Release
	racq, rrel = history.RAcquire, history.RRelease
	set, down  = history.Set, history.CountDown
	await, rd  = history.Await, history.Read
)

// leap is a clock that steps forward.
var leap = model.Loss{From: 5, To: 6, Lease: 20}

// s is a second; far is a clock that steps forward at the first one, by so much.
const s = int64(time.Second)

func far(step time.Duration) []model.Loss {
	return at(model.Loss{From: s, To: s + 10, Lease: 20, Step: step})
}

// handOver is a lock that one client has since before a leap, and gives back to one of
// its own who asks behind the leap and has it since a time of his own, or in memory of
// before; although Redis has granted it to another client meanwhile.
func handOver(since int64) []h {
	last := h{Op: acq, Owner: "c", N: 1, Call: 9, Return: 11, Out: history.OK, Since: since, Until: 13, Token: 2}
	return []h{
		call(acq, "a", 1, 2, until(10), token(1)), call(acq, "b", 7, 8, until(15), token(1000)), last,
		call(rel, "a", 10, 11), call(rel, "b", 15, 16),
	}
}

// TestSeeded: every kind of violation is found, and its lawful neighbour is not
// taken for one.
func TestSeeded(t *testing.T) {
	for _, c := range []struct {
		kind, what string
		right      bool
		losses     []model.Loss
		calls      []h
	}{
		{"rlock", "refused for one that stood still", true, nil, []h{call(acq, "a", 1, 20, stopped), call(acq, "b", 3, 4, refused), call(acq, "c", 6, 7), call(rel, "c", 8, 9), call(rel, "a", 21, 22)}},
		{"rlock", "refused for nobody", false, nil, []h{call(acq, "a", 1, 20), call(acq, "b", 3, 4, refused), call(acq, "c", 6, 7), call(rel, "c", 8, 9), call(rel, "a", 21, 22)}},
		{"permitsemaphore", "refused for one that stood still", true, nil, []h{call(set, "", 0, 1, n(1)), call(acq, "a", 1, 20, stopped), call(acq, "b", 3, 4, refused), call(acq, "c", 6, 7), call(rel, "c", 8, 9), call(rel, "a", 21, 22)}},
		{"rlock", "granted twice to one that stood still", false, nil, []h{call(acq, "a", 1, 5, stopped), call(acq, "c", 6, 7), call(rel, "c", 8, 9), call(rel, "a", 21, 22)}},
		{"rlock", "one after the other", true, nil, []h{call(acq, "a", 1, 2), call(rel, "a", 3, 4), call(acq, "b", 5, 6)}},
		{"rlock", "two holders", false, nil, []h{call(acq, "a", 1, 2), call(acq, "b", 3, 4), call(rel, "a", 5, 6)}},
		{"rlock", "two that believe it", false, nil, []h{call(acq, "a", 1, 2, lost(9)), call(acq, "b", 7, 8)}},
		{"rlock", "behind the end of a lease", true, nil, []h{call(acq, "a", 1, 2, lost(9)), call(acq, "b", 8, 10)}},
		{"rlock", "no answer: took it", true, nil, []h{call(acq, "a", 1, 2, unknown), call(acq, "b", 3, 4, refused)}},
		{"rlock", "no answer: did not", true, nil, []h{call(acq, "a", 1, 2, unknown), call(acq, "b", 3, 4)}},
		{"rlock", "no answer to a release", true, nil, []h{call(acq, "a", 1, 2, lost(3)), call(rel, "a", 3, 4, unknown), call(acq, "b", 5, 6)}},
		{"rlock", "refused while free", false, nil, []h{call(acq, "a", 1, 2), call(rel, "a", 3, 4), call(acq, "b", 5, 6, refused)}},
		{"fairlock", "refused while others queue", true, nil, []h{call(acq, "a", 1, 2), call(rel, "a", 3, 4), call(acq, "b", 5, 6, refused)}},
		{"rlock", "re-entry", true, nil, []h{call(acq, "a", 1, 2), call(acq, "a", 3, 4, nested), call(rel, "a", 5, 6, n(1)), call(acq, "b", 7, 8, refused), call(rel, "a", 9, 10), call(acq, "b", 11, 12)}},
		{"rlock", "free after one release of two", false, nil, []h{call(acq, "a", 1, 2), call(acq, "a", 3, 4, nested), call(rel, "a", 5, 6, n(1)), call(acq, "b", 7, 8), call(rel, "a", 9, 10)}},
		{"rlock", "the release of a stranger", false, nil, []h{call(acq, "a", 1, 2, until(8)), call(rel, "b", 3, 4), call(rel, "a", 8, 9)}},
		{"rlock", "double grant after a loss", true, at(model.Loss{From: 5, To: 6}), []h{call(acq, "a", 1, 2, lost(20)), call(acq, "b", 8, 9, until(20))}},
		{"rlock", "a release under way at a loss", true, at(model.Loss{From: 6, To: 7}), []h{call(acq, "a", 1, 2, until(3)), call(rel, "a", 3, 8), call(acq, "b", 4, 5)}},
		{"rlock", "double grant before a loss", false, at(model.Loss{From: 12, To: 13}), []h{call(acq, "a", 1, 2, lost(20)), call(acq, "b", 8, 9, until(20))}},
		{"rlock", "double grant long after a loss", false, at(model.Loss{From: 5, To: 6}), []h{call(acq, "a", 7, 8, lost(20)), call(acq, "b", 9, 10, until(20))}},
		{"rlock", "double grant after a leap", true, at(leap), []h{call(acq, "a", 1, 2, lost(20)), call(acq, "b", 8, 9, until(12)), call(rel, "b", 12, 13), call(acq, "c", 15, 16)}},
		{"rlock", "double grant a lease after a leap", false, at(leap), []h{call(acq, "a", 1, 2, lost(40)), call(acq, "b", 28, 29, until(30))}},
		{"rlock", "double grant of what was granted behind a leap", false, at(leap), []h{call(acq, "a", 7, 8, lost(20)), call(acq, "b", 9, 10, until(20))}},
		{"rlock", "double grant after a leap, heard of before the first", true, at(leap), []h{call(acq, "a", 1, 10, lost(12)), call(acq, "b", 8, 9, until(14)), call(rel, "b", 14, 15)}},
		{"rlock", "double grant after a loss, heard of before the first", true, at(model.Loss{From: 5, To: 6}), []h{call(acq, "a", 1, 10, lost(12)), call(acq, "b", 8, 9, until(14)), call(rel, "b", 14, 15)}},
		{"fairlock", "double grant after a leap, heard of before the first, of a lease that nobody knows", false, at(leap), []h{call(acq, "a", 1, 10, since(0), lost(12)), call(acq, "b", 8, 9, since(0), until(14)), call(rel, "b", 14, 15)}},
		{"fairlock", "double grant after a leap, of a lease that nobody knows", true, at(leap), []h{call(acq, "a", 1, 2, since(0), lost(20)), call(acq, "b", 8, 9, since(0), until(12)), call(rel, "b", 12, 13)}},
		{"rlock", "double grant before a leap, heard of before the first", false, at(leap), []h{call(acq, "a", 1, 4, lost(12)), call(acq, "b", 2, 3, until(14)), call(rel, "b", 14, 15)}},
		{"rlock", "double grant behind a leap, to one who had waited over it", false, at(leap), []h{call(acq, "a", 1, 10, since(9), lost(12)), call(acq, "b", 8, 9, until(14)), call(rel, "b", 14, 15)}},
		{"rlock", "double grant behind a loss, to one who had waited over it", false, at(model.Loss{From: 5, To: 6}), []h{call(acq, "a", 1, 10, since(9), lost(12)), call(acq, "b", 8, 9, until(14)), call(rel, "b", 14, 15)}},
		{"rlock", "double grant after a leap, believed in for longer than a lease", false, at(leap), []h{call(acq, "a", 1, 10, lost(28)), call(acq, "b", 8, 9, until(14)), call(rel, "b", 14, 15)}},
		{"rwlock", "a writer after a leap, beside a reader of before and one of behind", false, at(leap), []h{call(racq, "a", 1, 2, lost(20)), call(racq, "b", 8, 9, lost(20)), call(acq, "c", 10, 11, until(12)), call(rel, "c", 12, 13)}},
		{"rlock", "handed on in memory behind a leap", true, at(leap), handOver(1)},
		{"fenced", "handed on in memory behind a leap", true, at(leap), handOver(1)},
		{"rlock", "handed on in memory between the ends of a leap", true, at(model.Loss{From: 4, To: 12, Lease: 20}), handOver(1)},
		{"spin", "handed on in memory behind a leap", false, at(leap), handOver(1)},
		{"rlock", "handed on behind a leap, not in memory", false, at(leap), handOver(9)},
		{"rlock", "handed on in memory behind a leap, to another client", false, at(leap), handOver(1)},
		{"rlock", "handed on behind a leap, with an answer that is no truth", false, at(leap), []h{call(acq, "a", 1, 2, until(8)), call(acq, "b", 6, 7, until(9)), call(rel, "b", 9, 10), call(rel, "a", 8, 12), call(acq, "c", 9, 12, since(11))}},
		{"fenced", "a lesser token behind a loss, asked for within it", false, at(model.Loss{From: 5, To: 6}), []h{call(acq, "b", 5, 5, token(1000)), call(acq, "c", 6, 7, token(2))}},
		{"fenced", "a lesser token of what was granted behind a loss", false, at(model.Loss{From: 5, To: 6}), []h{call(acq, "b", 7, 7, token(1000)), call(acq, "c", 9, 10, since(8), token(2))}},
		{"fenced", "a lesser token of what was granted before a loss, behind a greater one", false, at(model.Loss{From: 5, To: 6}), []h{call(acq, "b", 2, 3, token(1000)), call(acq, "c", 9, 10, since(4), token(2))}},
		{"fenced", "a lesser token behind a leap", false, at(leap), []h{call(acq, "b", 7, 8, until(9), token(1000)), call(rel, "b", 9, 10), call(acq, "c", 11, 12, token(2))}},
		{"fenced", "a lesser token behind a leap, not in memory", false, at(leap), []h{call(acq, "b", 4, 5, until(5), token(1000)), call(rel, "b", 5, 5), call(acq, "c", 6, 7, token(2))}},
		{"rlock", "two holders behind a leap", false, at(leap), []h{call(acq, "a", 7, 8), call(acq, "b", 9, 10), call(rel, "a", 11, 12)}},
		{"rlock", "refused while free behind a leap", false, at(leap), []h{call(acq, "a", 1, 2), call(rel, "a", 3, 4), call(acq, "b", 7, 8, refused)}},
		{"rlock", "refused while free behind a loss", true, at(model.Loss{From: 5, To: 6}), []h{call(acq, "a", 1, 2), call(rel, "a", 3, 4), call(acq, "b", 7, 8, refused)}},
		{"rlock", "given back behind a leap", true, at(leap), []h{call(acq, "a", 1, 2, until(9)), call(acq, "b", 7, 8, refused), call(rel, "a", 9, 10), call(acq, "b", 11, 12)}},
		{"rwlock", "double grant after a leap, to a writer", true, at(leap), []h{call(racq, "a", 1, 2, lost(20)), call(acq, "b", 8, 9, until(12)), call(rel, "b", 12, 13)}},
		{"permitsemaphore", "double grant after a leap", true, at(leap), []h{call(set, "", 1, 2, n(1)), call(acq, "a", 3, 4, lost(20)), call(acq, "b", 8, 9, until(12)), call(rel, "b", 12, 13, n(1))}},
		{"rwlock", "read long over a leap", true, at(leap), []h{call(racq, "a", 1, 2, until(40)), call(rrel, "a", 40, 41), call(acq, "b", 42, 43)}},
		{"permitsemaphore", "given back long after a leap", true, at(leap), []h{call(set, "", 1, 2, n(1)), call(acq, "a", 3, 4, until(40)), call(rel, "a", 40, 41, n(1)), call(acq, "b", 42, 43)}},
		{"permitsemaphore", "over capacity long after a leap", false, at(leap), []h{call(set, "", 1, 2, n(1)), call(acq, "a", 3, 4, until(40)), call(acq, "b", 28, 29, until(30)), call(rel, "b", 30, 31, n(1)), call(rel, "a", 40, 41, n(1))}},
		{"semaphore", "one too many behind a leap", false, at(leap), []h{call(set, "", 1, 2, n(1)), call(acq, "", 3, 4), call(acq, "", 7, 8)}},
		{"semaphore", "refused for what was taken back when Redis had forgotten it", true, far(2 * time.Minute), []h{call(set, "", 1, 2, n(1)), call(acq, "x", s-9, s-8, unanswered), call(acq, "", 20*s, 20*s+1, refused)}},
		{"semaphore", "refused for what was taken back when Redis still knew it", false, far(59 * time.Second), []h{call(set, "", 1, 2, n(1)), call(acq, "x", s-9, s-8, unanswered), call(acq, "", 20*s, 20*s+1, refused)}},
		{"semaphore", "refused for what was taken back long before Redis forgot it", false, far(2 * time.Minute), []h{call(set, "", 1, 2, n(1)), call(acq, "x", 7, 8, unanswered), call(acq, "", 20*s, 20*s+1, refused)}},
		{"semaphore", "refused for what was asked for behind the leap", false, far(2 * time.Minute), []h{call(set, "", 1, 2, n(1)), call(acq, "x", s+20, s+30, unanswered), call(acq, "", 20*s, 20*s+1, refused)}},
		{"fairlock", "out of turn over a leap", true, at(leap), []h{call(acq, "b", 3, 9, queued(4)), call(rel, "b", 10, 11), call(acq, "a", 1, 12, queued(2)), call(rel, "a", 13, 14)}},
		{"fairlock", "out of turn behind a leap", false, at(leap), []h{call(acq, "b", 13, 19, queued(14)), call(rel, "b", 20, 21), call(acq, "a", 11, 22, queued(12)), call(rel, "a", 23, 24)}},
		{"fenced", "tokens grow", true, nil, []h{call(acq, "a", 1, 2, token(5)), call(rel, "a", 3, 4), call(acq, "b", 5, 6, token(6))}},
		{"fenced", "the same token", false, nil, []h{call(acq, "a", 1, 2, token(5)), call(rel, "a", 3, 4), call(acq, "b", 5, 6, token(5))}},
		{"fenced", "a lesser token after a loss", false, at(model.Loss{From: 3, To: 4}), []h{call(acq, "a", 1, 2, token(5)), call(acq, "b", 5, 6, token(3))}},
		{"fairlock", "in turn", true, nil, []h{call(acq, "a", 1, 9, queued(2)), call(rel, "a", 10, 11), call(acq, "b", 3, 12, queued(4)), call(rel, "b", 13, 14)}},
		{"fairlock", "out of turn", false, nil, []h{call(acq, "b", 3, 9, queued(4)), call(rel, "b", 10, 11), call(acq, "a", 1, 12, queued(2)), call(rel, "a", 13, 14)}},
		{"rwlock", "readers together", true, nil, []h{call(racq, "a", 1, 2, until(5)), call(racq, "b", 3, 4, until(6))}},
		{"rwlock", "a reader beside a writer", false, nil, []h{call(acq, "a", 1, 2, until(8)), call(racq, "b", 3, 4, until(6)), call(rel, "a", 8, 9)}},
		{"rwlock", "a writer beside a reader", false, nil, []h{call(racq, "a", 1, 2, until(8)), call(acq, "b", 3, 4, until(6)), call(rrel, "a", 8, 9)}},
		{"rwlock", "downgrade", true, nil, []h{call(acq, "a", 1, 2), call(racq, "a", 3, 4, nested), call(rel, "a", 5, 6), call(racq, "b", 7, 8), call(acq, "c", 7, 8, refused)}},
		{"rwlock", "a writer after a downgrade", false, nil, []h{call(acq, "a", 1, 2), call(racq, "a", 3, 4, nested), call(rel, "a", 5, 6), call(acq, "b", 7, 8), call(rrel, "a", 9, 10)}},
		{"rwlock", "an upgrade", false, nil, []h{call(racq, "a", 1, 2), call(acq, "a", 3, 4), call(rrel, "a", 5, 6)}},
		{"semaphore", "as many as there are", true, nil, []h{call(set, "", 1, 2, n(2)), call(acq, "", 3, 4), call(acq, "", 3, 4), call(acq, "", 5, 6, refused)}},
		{"semaphore", "one too many", false, nil, []h{call(set, "", 1, 2, n(1)), call(acq, "", 3, 4), call(acq, "", 3, 4)}},
		{"semaphore", "undone", true, nil, []h{call(set, "", 1, 2, n(1)), call(acq, "x", 3, 4, unknown), call(acq, "", 5, 6, refused), call(rd, "", 7, 8, n(1))}},
		{"semaphore", "a permit too many", false, nil, []h{call(set, "", 1, 2, n(1)), call(acq, "", 3, 4), call(rel, "", 5, 6, n(1)), call(rd, "", 7, 8, n(2))}},
		{"permitsemaphore", "over capacity", false, nil, []h{call(set, "", 1, 2, n(1)), call(acq, "a", 3, 4), call(acq, "b", 3, 4)}},
		{"permitsemaphore", "three that believe it, of two", false, nil, []h{call(set, "", 1, 2, n(2)), call(acq, "a", 3, 4, lost(20)), call(acq, "b", 5, 6, lost(20)), call(acq, "c", 7, 8, lost(20))}},
		{"permitsemaphore", "a permit is missing", false, nil, []h{call(set, "", 1, 2, n(1)), call(acq, "a", 3, 4), call(rel, "a", 5, 6), call(acq, "b", 7, 8, refused)}},
		{"permitsemaphore", "given back twice", false, nil, []h{call(set, "", 1, 2, n(1)), call(acq, "a", 3, 4), call(rel, "a", 5, 6), call(rel, "a", 7, 8)}},
		{"countdownlatch", "opens at 0", true, nil, []h{call(set, "", 1, 2, n(2)), call(await, "", 3, 9), call(down, "", 4, 5), call(down, "", 6, 7)}},
		{"countdownlatch", "opens early", false, nil, []h{call(set, "", 1, 2, n(2)), call(await, "", 3, 5), call(down, "", 4, 6), call(down, "", 7, 8)}},
		{"countdownlatch", "one count-down took two", false, nil, []h{call(set, "", 1, 2, n(3)), call(down, "", 3, 4), call(rd, "", 5, 6, n(1))}},
		{"countdownlatch", "set twice", false, nil, []h{call(set, "", 1, 2, n(3)), call(set, "", 3, 4, n(3))}},
	} {
		t.Run(c.kind+": "+c.what, func(t *testing.T) {
			for i := range c.calls {
				e := &c.calls[i]
				e.Kind, e.Key, e.Worker, e.Party = c.kind, "k", i, i
				if strings.HasPrefix(c.what, "handed on") && !strings.HasSuffix(c.what, "another client") && e.Owner != "b" {
					e.Party = 100 // of one client
				}
			}
			v := model.Check(c.calls, c.losses, 10*time.Second, model.Leaving)
			require.Equal(t, c.right, len(v.Violations) == 0, "%v", v.Violations)
			if c.right || v.Doubles == 0 {
				require.Equal(t, c.right && strings.HasPrefix(c.what, "double grant"), v.Doubles == 1, "doubles: %d", v.Doubles)
			}
		})
	}
}

// TestLeaving: a refusal may be for one who has just given up, for as long as he may
// take to give back, and no longer.
func TestLeaving(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, kind := range []string{"rlock", "fenced", "nonreentrant"} {
		for _, leaving := range []time.Duration{model.Leaving, model.LeavingLate, model.LeavingLate + 2600*time.Millisecond} {
			for _, late := range []bool{false, true} {
				gap := int64(leaving) - ms
				if late {
					gap += 2 * ms
				}
				calls := []h{
					{Kind: kind, Key: "k", Worker: 0, Party: 0, Owner: "a", Op: acq, Call: ms, Return: 100 * ms, Out: history.None},
					{Kind: kind, Key: "k", Worker: 1, Party: 1, Owner: "b", Op: acq, Call: 100*ms + gap, Return: 102*ms + gap, Out: history.Refused},
				}
				v := model.Check(calls, nil, 10*time.Second, leaving)
				require.Equal(t, late, len(v.Violations) > 0, "%s, %v, %v: %v", kind, leaving, late, v.Violations)
			}
		}
	}
}

// TestFindsOne: one wrong answer among ten thousand calls, some of them without an
// answer, is found, and not where there is none.
func TestFindsOne(t *testing.T) {
	for _, seeded := range []bool{false, true} {
		calls := simulated(rand.New(rand.NewPCG(1, 2)), 10_000)
		if seeded {
			for i := 5000; ; i++ {
				if calls[i].Op == acq && calls[i].Out == history.Refused {
					calls[i].Out, calls[i].Given, calls[i].Until = history.OK, true, calls[i].Return
					break
				}
			}
		}
		start := time.Now()
		v := model.Check(calls, nil, time.Minute, model.Leaving)
		require.Equal(t, seeded, len(v.Violations) > 0, "%v", v.Violations)
		require.Equal(t, len(calls), v.Calls)
		t.Logf("%d calls in %v", v.Calls, time.Since(start))
	}
}

// simulated is what workers of a correct lock would record: each call takes effect
// at a moment of its own, and lasts from somewhat before to somewhat after. One in
// a hundred has no answer.
func simulated(r *rand.Rand, calls int) []h {
	const workers = 12
	holder, got := -1, 0 // who has it, and by which call
	var made []h
	for i := range calls {
		w := r.IntN(workers)
		now := int64(i+1) * 100
		e := h{
			Kind: "rlock", Key: "k", Worker: w, Party: w, Owner: fmt.Sprintf("o%d", i), Op: acq, N: 1,
			Call: now - r.Int64N(40), Return: now + r.Int64N(40), Out: history.OK, Given: true,
		}
		switch {
		case holder == w:
			e.Op, e.N, e.Owner, holder = rel, 0, made[got].Owner, -1
			made[got].Until = e.Call
		case holder >= 0:
			e.Out, e.Given = history.Refused, false
		default:
			holder, got = w, i
		}
		e.Until = e.Return
		if r.IntN(100) == 0 {
			e.Out, e.Return, e.Given = history.Unknown, history.Forever, false
			switch {
			case e.Op == rel:
				made[got].Given = false
			case got == i:
				holder = -1 // undone at once
			}
		}
		made = append(made, e)
	}
	return made
}
