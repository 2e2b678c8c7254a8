package latchkey

import "github.com/latchkey-go/latchkey/internal/engine"

// A LeakAction says what is done about a Hold or a Permit that was never given
// back; see WithLeakDetection.
type LeakAction int

const (
	// LeakLog writes one line to the logger (WithLogger).
	LeakLog = LeakAction(engine.LeakLog)
	// LeakRelease writes the line and gives the lock or the permit back.
	LeakRelease = LeakAction(engine.LeakRelease)
)

// WithLeakDetection finds Holds and Permits that nobody can give back any more
// and that would be renewed for as long as the process lives. Each is logged
// once, with the place where it was acquired, and with LeakRelease it is given
// back. Default: nobody looks, and no place is noted.
//
// A Hold is in use for as long as the program can reach it, its Context, or a
// context derived from that. A goroutine that only waits on the channel of Done
// or Lost does not keep it; a Hold whose Lost was asked for is logged and never
// given back. A lock that is held for the life of the process stays reachable,
// in a variable of its package for instance. What is forgotten is found by the
// garbage collector and reported at the next renewal, after a third of the
// watchdog's timeout at most.
//
// Not reported are: what has a Lease or is Permanent, which is not renewed;
// re-entries, holds under WithHolder, the Hold that Downgrade returns, and
// Permits whose ID was read, all of which can be given back without the Hold or
// the Permit; and a Hold whose Context has acquired what is still held.
func WithLeakDetection(action LeakAction) Option {
	if action != LeakLog && action != LeakRelease {
		badOption("WithLeakDetection: %d is neither LeakLog nor LeakRelease", action)
	}
	return optionFunc(func(c *engine.Config) { c.Leaks = engine.Leaks(action) })
}
