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

// Who describes a holder or waiter, for people.
type Who struct {
	Label string
	Host  string
	PID   int
	Since time.Time // by the server's clock; zero if unknown
	// Ended is when the work ended after which the lock stays closed, by the
	// server's clock; zero for all others.
	Ended time.Time
}

// thisHost returns the name of the machine as one word.
var thisHost = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return strings.Join(strings.Fields(name), "_")
})

// ThisHost returns the name of the machine as one word.
func ThisHost() string { return thisHost() }

// who describes a holder or waiter of this process.
func (e *Engine) who(label string, since time.Time) Who {
	return Who{Label: label, Host: thisHost(), PID: os.Getpid(), Since: e.Clock.At(since)}
}

// Who returns what Redis shows of this process under a label, as String has it.
func (e *Engine) Who(label string) string { return e.who(label, time.Now()).String() }

// String returns the value of a label's key: "<since, ms> <pid> <host>
// <label>", with "-<ended, ms>" after the first number if the work has ended.
func (w Who) String() string {
	ended := ""
	if !w.Ended.IsZero() {
		ended = fmt.Sprintf("-%d", w.Ended.UnixMilli())
	}
	return fmt.Sprintf("%d%s %d %s %s", w.Since.UnixMilli(), ended, w.PID, w.Host, w.Label)
}

// ParseWho parses a value from String. Any other text is only a label.
func ParseWho(text string) Who {
	if text == "" {
		return Who{}
	}
	parts := strings.SplitN(text, " ", 4)
	if len(parts) == 4 {
		from, to, over := strings.Cut(parts[0], "-")
		since, err := strconv.ParseInt(from, 10, 64)
		pid, err2 := strconv.Atoi(parts[1])
		who := Who{Label: parts[3], Host: parts[2], PID: pid, Since: time.UnixMilli(since)}
		if over && err == nil {
			var ended int64
			ended, err = strconv.ParseInt(to, 10, 64)
			who.Ended = time.UnixMilli(ended)
		}
		if err == nil && err2 == nil {
			return who
		}
	}
	return Who{Label: text}
}

// label returns the value of the label's key for a request for one hold more
// than count. It is empty, at no cost, if there is no label.
func (c *lockAttempt) label(count int) string {
	label := c.cfg.Label
	var since time.Time
	if count > 0 {
		// The value has the time of the first hold and the latest label.
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
