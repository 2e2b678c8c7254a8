package engine

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A Divisible is a Want of a number of equal things without owner, such as
// permits. Units that a client gives back may go to waiting callers of the same
// client in memory, for as long as a slice lasts after Redis has granted them.
type Divisible interface {
	Want
	// Units returns how many it wants, at least 1.
	Units() int
}

// shares are the units that this client was granted while other callers of it
// waited for more.
type shares struct {
	// mu guards the fields below.
	mu   sync.Mutex
	m    map[string]*portion // by line
	room int                 // size of m at which useless portions are removed
}

// A portion has the end of the slice of each unit, in order.
type portion struct{ ends []time.Time }

// sharesRoom is the least number of portions before useless ones are removed.
const sharesRoom = 64

// tidyLocked removes the portions whose slices are all over. Their units may be
// given back elsewhere, or never.
func (ss *shares) tidyLocked(now time.Time) {
	maps.DeleteFunc(ss.m, func(_ string, sh *portion) bool { return !now.Before(sh.ends[len(sh.ends)-1]) })
	ss.room = max(2*len(ss.m), sharesRoom)
}

// mostShares is the most units of one thing that are tracked.
const mostShares = 4096

// add notes that Redis has granted units.
func (ss *shares) add(line string, units int, end time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh := ss.m[line]
	if sh == nil {
		if ss.m == nil {
			ss.m = make(map[string]*portion)
		}
		if len(ss.m) >= ss.room {
			ss.tidyLocked(time.Now())
		}
		sh = &portion{}
		ss.m[line] = sh
	}
	for range min(units, mostShares-len(sh.ends)) {
		sh.ends = append(sh.ends, end)
	}
}

// keep reports whether that many units, which were given back just now, may
// stay with the client. They count as its oldest.
func (ss *shares) keep(line string, units int, now time.Time) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh := ss.m[line]
	if sh == nil {
		return false
	}
	return len(sh.ends) >= units && now.Before(sh.ends[0])
}

// drop notes that units go back to Redis.
func (ss *shares) drop(line string, units int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sh := ss.m[line]
	if sh == nil {
		return
	}
	if sh.ends = sh.ends[min(units, len(sh.ends)):]; len(sh.ends) == 0 {
		delete(ss.m, line)
	}
}

// granted notes that Redis has granted w to d.
func (e *Engine) granted(d *wantAttempt, w Want) {
	div, ok := w.(Divisible)
	if ok && !d.given && e.cfg.HandOver > 0 && e.lines.Waits(d.spec.Line) {
		e.shares.add(d.spec.Line, div.Units(), time.Now().Add(e.cfg.HandOver))
	}
}

// HandOn passes units that a caller gives back to waiting callers of this
// client, first come first served. It returns how many are left for Redis.
func (e *Engine) HandOn(s *Spec, units int) (left int) {
	if e.cfg.HandOver == 0 || !e.gate.Enter() {
		return units
	}
	defer e.gate.Leave()
	now := time.Now()
	for units > 0 {
		wants := 0
		if !e.lines.Give(s.Line, func(c wait.Claim) bool {
			d := wantAttemptOf(c)
			if d == nil || d.inDoubt {
				return false // it may have been granted what it wants already
			}
			wants = d.want.(Divisible).Units()
			d.given = wants <= units && e.shares.keep(s.Line, wants, now)
			return d.given
		}) {
			break
		}
		units -= wants
	}
	if units > 0 {
		e.shares.drop(s.Line, units)
	}
	return units
}

// Partly returns the error for a return of which HandOn has passed on given of
// all units. err is the error for the rest. The result reports MaybeApplied,
// because some units were given back.
func (e *Engine) Partly(op string, s *Spec, given, all int, err error) error {
	if given == 0 || Done(err) {
		return err
	}
	err = fmt.Errorf("%d of %d have gone on to who waits for them, for the others: %w", given, all, errors.Unwrap(err))
	return e.Wrap(op, s, inDoubt{err})
}

// wantAttemptOf returns the attempt behind c for something divisible, or nil.
func wantAttemptOf(c wait.Claim) *wantAttempt {
	var d *wantAttempt
	switch c := c.(type) {
	case *grouped:
		d = c.wantAttempt
	case *wantAttempt:
		d = c
	default:
		return nil
	}
	if _, ok := d.want.(Divisible); !ok {
		return nil
	}
	return d
}
