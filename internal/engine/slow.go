package engine

import (
	"context"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
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
	// Reenters reports that it was acquired with the very context that waits now, so that
	// the Context of the hold would re-enter.
	Reenters bool
}

// slowWaits finds the waits that last for long. Its goroutine runs while anybody waits.
type slowWaits struct {
	mu sync.Mutex
	on bool
	// reported has how long the attempts had waited that were reported, rounded down to
	// what is reported. It is of the goroutine alone.
	reported map[*attempt]time.Duration
}

// slowChecks is how often in the time of the option the goroutine looks.
const slowChecks = 8

// watchWaits starts the goroutine that reports slow waits, if it does not run.
func (e *Engine) watchWaits() {
	if e.cfg.SlowWait == 0 {
		return
	}
	e.slow.mu.Lock()
	defer e.slow.mu.Unlock()
	if e.slow.on || !e.gate.Enter() {
		return
	}
	e.slow.on = true
	go func() {
		defer e.gate.Leave()
		tick := time.NewTicker(max(e.cfg.SlowWait/slowChecks, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-e.gate.Closed():
				return
			}
			if !e.reportSlow() {
				return
			}
		}
	}()
}

// reportSlow reports the waits that have lasted for the time of the option, for twice
// that, and so on. It returns false, and the goroutine ends, if nobody waits.
func (e *Engine) reportSlow() bool {
	claims := e.lines.Claims()
	if len(claims) == 0 {
		e.slow.reported = nil
		e.slow.mu.Lock()
		defer e.slow.mu.Unlock()
		// Whoever began to wait just now has found the goroutine running.
		e.slow.on = len(e.lines.Claims()) > 0
		return e.slow.on
	}
	places := map[string]int{} // by line
	before := e.slow.reported
	e.slow.reported = make(map[*attempt]time.Duration, len(before))
	for _, claim := range claims {
		asks, ok := claim.(interface{ asked() (*attempt, string) })
		if !ok {
			continue
		}
		c, id := asks.asked()
		places[c.spec.Line]++
		waited := time.Since(c.began())
		if waited < e.cfg.SlowWait {
			continue
		}
		step := e.cfg.SlowWait
		for 2*step <= waited {
			step *= 2
		}
		e.slow.reported[c] = step
		if step == before[c] {
			continue
		}
		e.cfg.Slow(e.gate.Late(), SlowWait{
			Kind: c.spec.Kind, Name: c.spec.Name, Waited: waited, Place: places[c.spec.Line], ID: id, Own: e.ownHolds(c),
		})
	}
	return true
}

// ownHolds returns what this client holds under the key that c waits for.
func (e *Engine) ownHolds(c *attempt) (own []OwnHold) {
	for _, hd := range e.holdings.all() {
		hd.mu.Lock()
		if hd.key.key == c.spec.Key && len(hd.holds) > 0 {
			h := hd.holds[0]
			own = append(own, OwnHold{ID: hd.field, Acquired: h.origin.where(), Reenters: same(h.parent, c.ctx)})
		}
		hd.mu.Unlock()
		hd.leave()
	}
	return own
}

// same reports whether a and b are one context, other than one that everybody has.
func same(a, b context.Context) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b && a != context.Background() && a != context.TODO()
}

// A place says where a hold was acquired: the callers, innermost first.
type place []uintptr

// setOrigin notes where h was acquired, if that is wanted.
func (h *Hold) setOrigin(o *Origin) {
	if o == nil {
		return
	}
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
