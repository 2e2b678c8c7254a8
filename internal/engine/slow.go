package engine

import (
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A SlowWait is a call that has waited for long.
type SlowWait struct {
	Kind, Name string
	Waited     time.Duration
	Place      int       // in line among the callers of this client, the next one first
	ID         string    // of the holder that the waiter will be, as Redis will show it
	Own        []OwnHold // what this client holds under the key
}

// An OwnHold is a hold of this client on what a call waits for.
type OwnHold struct {
	ID       string // as Redis shows the holder
	Acquired string // where: "file.go:12"; empty if it was not noted
	// Reenters reports that it was acquired with the context that waits now, or with one
	// that differs only in its values: the Context of the hold would re-enter.
	Reenters bool
}

// slowWaits reports the waits that last for long.
type slowWaits struct {
	engine *Engine
	// reported has how long the attempts had waited that were reported, rounded down to
	// what is reported.
	reported map[*attempt]time.Duration
}

// slowChecks is how often in the time of the option it looks.
const slowChecks = 8

// lookForSlowWaits returns what reports slow waits.
func (e *Engine) lookForSlowWaits() looker {
	s := &slowWaits{engine: e}
	return looker{every: max(e.cfg.SlowWait/slowChecks, time.Millisecond), look: s.look}
}

// look reports the waits that have lasted for the time of the option, for twice
// that, and so on.
func (s *slowWaits) look(waits []waiting) {
	e := s.engine
	places := map[string]int{} // by line
	before := s.reported
	s.reported = make(map[*attempt]time.Duration, len(before))
	for _, c := range waits {
		places[c.spec.Line]++
		waited := time.Since(c.began())
		if waited < e.cfg.SlowWait {
			continue
		}
		step := e.cfg.SlowWait
		for 2*step <= waited {
			step *= 2
		}
		s.reported[c.attempt] = step
		if step == before[c.attempt] {
			continue
		}
		e.cfg.Slow(e.gate.Late(), SlowWait{
			Kind: c.spec.Kind, Name: c.spec.Name, Waited: waited, Place: places[c.spec.Line], ID: c.id, Own: e.ownHolds(c.attempt),
		})
	}
}

// ownHolds returns what this client holds under the key that c waits for.
func (e *Engine) ownHolds(c *attempt) (own []OwnHold) {
	for _, hd := range e.holdings.all() {
		hd.mu.Lock()
		if hd.key.key == c.spec.Key && len(hd.holds) > 0 {
			h := hd.holds[0]
			own = append(own, OwnHold{ID: hd.field, Acquired: h.origin.where(), Reenters: h.origin.under(c.caller.done)})
		}
		hd.mu.Unlock()
		hd.leave()
	}
	return own
}

// A place says where a hold was acquired: the callers, innermost first.
type place []uintptr

// setOrigin notes where h was acquired, if that is wanted.
func (h *Hold) setOrigin(o *Origin) {
	if o == nil {
		return
	}
	o.done = h.parent.Done()
	h.holding.mu.Lock()
	h.origin = o
	h.holding.mu.Unlock()
}

// module is the path of this module; its own functions are passed over.
const module = "github.com/latchkey-go/latchkey"

// String returns the first caller outside of this module: "file.go:12".
func (p place) String() string {
	if len(p) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(p)
	for {
		f, more := frames.Next()
		if !isOurs(f) {
			return f.File[strings.LastIndexByte(f.File, '/')+1:] + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

// isOurs reports whether f is a function of the library. Its tests, examples and the
// command are callers like others.
func isOurs(f runtime.Frame) bool {
	rest, ok := strings.CutPrefix(f.Function, module)
	if !ok || strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	return !strings.HasPrefix(rest, "/cmd/") && !strings.HasPrefix(rest, "/examples/") && !strings.HasPrefix(rest, "_test")
}
