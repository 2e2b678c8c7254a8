// Package model says what may happen to latchkey's objects, and finds histories in
// which something else did.
//
// Every object is a state machine for porcupine, which looks for an order of the
// calls that explains all answers. So that the search is short, what is not known is
// part of the state where it can be: a hold whose lease has ended, or whose release
// had no answer, is soft, and may be there or not; the number of permits is between
// two bounds. An acquire without an answer can only make others be refused, so it is
// left out, and refusals that it may explain are not looked at.
//
// The linear checkers look at single properties, and take any number of calls.
package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/latchkey-go/latchkey/chaos/history"
)

// lockState is a lock and its last fencing token.
type lockState struct {
	owner string
	count int
	soft  bool
	token int64
}

// Lock is exclusion, re-entry, and tokens that grow. A lock that may refuse is one
// that says no although nobody holds it, for instance because others queue for it.
func Lock(mayRefuse bool) porcupine.Model {
	return machine(lockState{}, func(s lockState, e *history.Entry) (lockState, bool) {
		switch e.Op {
		case history.Acquire:
			mine := s.owner == e.Owner && e.Nested
			switch {
			case e.Out == history.Refused:
				return s, mayRefuse || s.owner != "" && !mine
			case s.owner != "" && !s.soft && !mine, e.Token != 0 && e.Token <= s.token:
				return s, false
			case !mine:
				s.owner, s.count, s.soft = e.Owner, 0, false
			}
			s.count, s.token = s.count+1, max(s.token, e.Token)
			return s, true
		case history.Release:
			if s.owner != e.Owner {
				return s, false
			}
			if s.count = min(s.count, e.N); s.count == 0 {
				s.owner, s.soft = "", false
			}
			return s, true
		case history.Expire:
			s.soft = s.soft || s.owner == e.Owner
			return s, true
		case history.Read:
			return s, s.soft || (e.N == 1) == (s.owner != "")
		}
		return s, false
	})
}

// rwState is a read-write lock; readers is a bag. Soft says that there may be more
// readers than those.
type rwState struct {
	writer     string
	count      int
	softWriter bool
	readers    string
	soft       bool
}

// RW is a lock that many may read and one may write. The writer may read too, and
// goes on when it has given the write lock back. Readers may be refused, since they
// stand back for a writer that waits.
func RW() porcupine.Model {
	return machine(rwState{}, func(s rwState, e *history.Entry) (rwState, bool) {
		switch e.Op {
		case history.Acquire:
			mine := s.writer == e.Owner && e.Nested
			free := s.writer == "" || s.softWriter
			switch {
			case e.Out == history.Refused:
				return s, !mine && (s.writer != "" || s.readers != "" || s.soft)
			case mine:
				s.count++
				return s, true
			case !free || s.readers != "":
				return s, false
			}
			return rwState{writer: e.Owner, count: 1}, true
		case history.Release:
			if s.writer != e.Owner {
				return s, false
			}
			if s.count = min(s.count, e.N); s.count == 0 {
				s.writer, s.softWriter = "", false
			}
			return s, true
		case history.RAcquire:
			switch {
			case e.Out == history.Refused:
				return s, true
			case s.writer != "" && !s.softWriter && s.writer != e.Owner:
				return s, false
			case s.writer != e.Owner:
				s.writer, s.count, s.softWriter = "", 0, false
			}
			s.readers = put(s.readers, e.Owner)
			return s, true
		case history.RRelease:
			var had bool
			s.readers, had = take(s.readers, e.Owner)
			return s, had
		case history.Expire:
			s.softWriter = s.softWriter || s.writer == e.Owner
			return s, true
		case history.RExpire:
			var had bool
			s.readers, had = take(s.readers, e.Owner)
			s.soft = s.soft || had
			return s, true
		}
		return s, false
	})
}

// semState is a semaphore without owners, which has this many permits at least, and
// that many at most.
type semState struct{ least, most int }

// Semaphore is so many permits, given to anybody and taken from anybody.
func Semaphore(mayRefuse bool) porcupine.Model {
	return machine(semState{}, func(s semState, e *history.Entry) (semState, bool) {
		switch e.Op {
		case history.Set:
			return semState{e.N, e.N}, true
		case history.Acquire:
			if e.Out == history.Refused {
				return s, mayRefuse || s.least < e.N
			}
			return semState{max(0, s.least-e.N), s.most - e.N}, s.most >= e.N
		case history.Release:
			if e.Out == history.Unknown || e.Out == history.Pending {
				return semState{s.least, s.most + e.N}, true
			}
			return semState{s.least + e.N, s.most + e.N}, true
		case history.Read:
			return s, s.least <= e.N && e.N <= s.most
		}
		return s, e.Op == history.Expire
	})
}

// permitState is a semaphore whose permits have owners; out is a bag of those. Soft
// is how many more may be out.
type permitState struct {
	size int
	out  string
	soft int
}

// Permits is so many permits, each with an id: never more, and each is given back by
// its id only.
func Permits(mayRefuse bool) porcupine.Model {
	return machine(permitState{}, func(s permitState, e *history.Entry) (permitState, bool) {
		free := s.size - size(s.out)
		switch e.Op {
		case history.Set:
			s.size = e.N
			return s, true
		case history.Acquire:
			switch {
			case e.Out == history.Refused:
				return s, mayRefuse || free-s.soft <= 0
			case free <= 0:
				return s, false
			}
			s.out, s.soft = put(s.out, e.Owner), min(s.soft, free-1)
			return s, true
		case history.Release:
			var had bool
			s.out, had = take(s.out, e.Owner)
			return s, had
		case history.Expire:
			var had bool
			if s.out, had = take(s.out, e.Owner); had {
				s.soft++
			}
			return s, true
		case history.Read:
			return s, free-s.soft <= e.N && e.N <= free
		}
		return s, false
	})
}

// Latch is a count that ends at 0, where all who wait are let go, and may then begin
// anew. Calls without an answer are part of the history here, and may come last.
func Latch() porcupine.Model {
	return machine(0, func(n int, e *history.Entry) (int, bool) {
		switch e.Op {
		case history.Set:
			switch {
			case e.Out == history.Refused:
				return n, n > 0
			case n > 0:
				return n, e.Out != history.OK
			}
			return e.N, true
		case history.CountDown:
			return max(0, n-1), true
		case history.Await:
			return n, e.Out != history.OK || n == 0
		case history.Read:
			return n, e.N == n
		}
		return n, false
	})
}

// machine makes a porcupine model of a step function that says which state follows,
// and whether the call may have ended as it did.
func machine[S comparable](init S, step func(S, *history.Entry) (S, bool)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return init },
		Step: func(state, input, _ any) (bool, any) {
			next, ok := step(state.(S), input.(*history.Entry))
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(S) == b.(S) },
		DescribeOperation: func(input, _ any) string {
			e := input.(*history.Entry)
			return fmt.Sprintf("%s %s n=%d token=%d -> %d %s", e.Op, e.Owner, e.N, e.Token, e.Out, e.Err)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// A bag is a sorted list of words in one string, which makes states comparable.

func put(bag, word string) string {
	if bag == "" {
		return word
	}
	words := append(strings.Split(bag, " "), word)
	slices.Sort(words)
	return strings.Join(words, " ")
}

func take(bag, word string) (left string, had bool) {
	words := strings.Split(bag, " ")
	i := slices.Index(words, word)
	if i < 0 {
		return bag, false
	}
	return strings.Join(slices.Delete(words, i, i+1), " "), true
}

func size(bag string) int {
	if bag == "" {
		return 0
	}
	return strings.Count(bag, " ") + 1
}
