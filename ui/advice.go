package ui

import (
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/object"
)

// An advice is what people should know of an object.
type advice struct {
	Level string // "note" or "warning"
	Text  string // a key of the texts
}

// longHeld is from when on a hold with waiters is a long one.
const longHeld = 10 * time.Minute

// advise returns what is odd about o.
func advise(o *object.Object) (all []advice) {
	add := func(level, text string) { all = append(all, advice{level, text}) }
	info := &o.Info
	endless, unnamed, over := false, len(info.Holders) > 0, false
	for _, h := range info.Holders {
		endless = endless || h.Lease < 0
		over = over || h.Lease == 0
		unnamed = unnamed && h.Label == "" && h.Host == ""
	}
	if endless {
		add("warning", "endless")
	}
	if over {
		add("note", "over")
	}
	if o.Waiting() > 0 && o.HeldFor() > longHeld {
		add("warning", "longheld")
	}
	for _, w := range info.Waiters {
		if !w.Deadline.IsZero() && w.Deadline.Before(info.At) {
			add("note", "overdue")
			break
		}
	}
	if unnamed && info.Kind != latchkey.KindMultiLock {
		add("note", "unnamed")
	}
	if info.Kind == latchkey.KindCounter {
		add("note", "number")
	}
	if strings.ContainsAny(o.Name, "{}") && names.CheckSlots(o.Name, []string{o.Name, names.Token(o.Name), names.Suffixed(o.Name, "timeout")}) != nil {
		add("warning", "slots")
	}
	return all
}
