package engine

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Who says who a holder or waiter is, for people.
type Who struct {
	Label string
	Host  string
	PID   int
	Since time.Time // by the server's clock; zero: unknown
}

// thisHost is the name of the machine, in one word.
var thisHost = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return strings.Join(strings.Fields(name), "_")
})

// who says who this process is.
func (e *Engine) who(label string, since time.Time) Who {
	return Who{Label: label, Host: thisHost(), PID: os.Getpid(), Since: e.Clock.At(since)}
}

// String is what the key of a label has in it: "<since, ms> <pid> <host> <label>".
func (w Who) String() string {
	return fmt.Sprintf("%d %d %s %s", w.Since.UnixMilli(), w.PID, w.Host, w.Label)
}

// ParseWho reads what String has made. Anything else is a label and no more.
func ParseWho(text string) Who {
	if text == "" {
		return Who{}
	}
	parts := strings.SplitN(text, " ", 4)
	if len(parts) == 4 {
		since, err := strconv.ParseInt(parts[0], 10, 64)
		pid, err2 := strconv.Atoi(parts[1])
		if err == nil && err2 == nil {
			return Who{Label: parts[3], Host: parts[2], PID: pid, Since: time.UnixMilli(since)}
		}
	}
	return Who{Label: text}
}

// label returns what a request for one hold more than count has for the key of
// the label: empty, and so free of charge, where nobody has given one.
func (c *lockAttempt) label(count int) string {
	label := c.cfg.Label
	var since time.Time
	if count > 0 {
		// It says since when the first hold lasts, and lasts as long as the last.
		c.holding.mu.Lock()
		for i := len(c.holding.holds) - 1; i >= 0; i-- {
			since = c.holding.holds[i].since
			label = cmp.Or(label, c.holding.holds[i].cfg.Label)
		}
		c.holding.mu.Unlock()
	}
	if label == "" {
		return ""
	}
	if since.IsZero() {
		since = time.Now()
	}
	return c.spec.engine.who(label, since).String()
}
