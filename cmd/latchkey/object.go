package main

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/latchkey-go/latchkey"
)

// An object is what the commands show of a name, as JSON has it. docs/cli.md
// says what the fields mean.
type object struct {
	Name      string   `json:"name"`
	NameBytes string   `json:"name_base64,omitempty"`
	Kind      string   `json:"kind"`
	Holders   []holder `json:"holders"`
	Waiters   []waiter `json:"waiters"`
	Listeners int      `json:"listeners"`
	LeaseMs   int64    `json:"lease_ms"`
	Token     int64    `json:"token"`
	Count     int64    `json:"count"`
	At        string   `json:"at"`
	Beside    string   `json:"beside,omitempty"`

	info latchkey.Info
	word string // for the number of a counter, where it is known what it counts
}

type holder struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Since   string `json:"since,omitempty"`
	Count   int    `json:"count"`
	LeaseMs int64  `json:"lease_ms"`
	Mode    string `json:"mode,omitempty"`
	Value   string `json:"value,omitempty"`
}

type waiter struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Since    string `json:"since,omitempty"`
	Deadline string `json:"deadline,omitempty"`
}

// kindFree is how commands call a name that nothing stands for.
const kindFree = "free"

func newObject(info latchkey.Info) *object {
	o := &object{
		Name: info.Name, Kind: kindText(info.Kind), Listeners: info.Listeners, LeaseMs: millis(info.Lease),
		Token: info.Token, Count: info.Count, At: instant(info.At),
		Holders: []holder{}, Waiters: []waiter{}, Beside: beside(info.Name), info: info,
	}
	if !utf8.ValidString(info.Name) {
		o.NameBytes = base64.StdEncoding.EncodeToString([]byte(info.Name))
	}
	for _, h := range info.Holders {
		o.Holders = append(o.Holders, holder{
			ID: h.ID, Label: h.Label, Host: h.Host, PID: h.PID, Since: instant(h.Since), Count: h.Count,
			LeaseMs: millis(h.Lease), Mode: h.Mode, Value: h.Value,
		})
	}
	for _, w := range info.Waiters {
		o.Waiters = append(o.Waiters, waiter{
			ID: w.ID, Label: w.Label, Host: w.Host, PID: w.PID, Since: instant(w.Since), Deadline: instant(w.Deadline),
		})
	}
	return o
}

func kindText(k latchkey.Kind) string {
	if k == latchkey.KindFree {
		return kindFree
	}
	return string(k)
}

// millis is a lease for programs: -1 for one without an end.
func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// instant is a moment for programs, empty where it is not known.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// counted reports whether the kind has a number: of permits, or a count.
func (o *object) counted() bool {
	switch o.info.Kind {
	case latchkey.KindSemaphore, latchkey.KindPermitSemaphore, latchkey.KindLatch, latchkey.KindCounter:
		return true
	}
	return false
}

// waiting says how many wait, as far as Redis knows: those in a queue, or else
// the connections that listen.
func (o *object) waiting() int { return max(len(o.Waiters), o.Listeners, 0) }

// heldFor is for how long it has been held, as far as that is known.
func (o *object) heldFor() (longest time.Duration) {
	for _, h := range o.info.Holders {
		if !h.Since.IsZero() {
			longest = max(longest, o.info.At.Sub(h.Since))
		}
	}
	return longest
}

// who says who has it, in a few words.
func (o *object) who() string {
	switch len(o.info.Holders) {
	case 0:
		return "-"
	case 1:
		return shownName(o.info.Holders[0].ID)
	}
	noun := " holders"
	switch o.info.Kind {
	case latchkey.KindPermitSemaphore:
		noun = " permits out"
	case latchkey.KindReadWrite:
		noun = " readers"
		for _, h := range o.info.Holders {
			if h.Mode == "write" {
				noun = " holds of a writer"
			}
		}
	}
	return strconv.Itoa(len(o.info.Holders)) + noun
}

// process says which process a label was given by, "-" where that is not known.
func process(host string, pid int) string {
	if host == "" {
		return "-"
	}
	return shownName(host) + ":" + strconv.Itoa(pid)
}

// line is the object in the table of ls.
func (o *object) line() []string {
	label, held := "-", "-"
	if len(o.info.Holders) > 0 {
		h := o.info.Holders[0]
		label, held = orDash(shownText(h.Label)), since(h.Since, o.info.At)
		if n := len(o.info.Holders) - 1; n > 0 && label != "-" {
			label += " +" + strconv.Itoa(n)
		}
	}
	lease, count := "-", "-"
	switch {
	case o.counted():
		count = strconv.FormatInt(o.Count, 10)
	case len(o.info.Holders) > 0:
		lease, count = leaseText(o.info.Lease), strconv.Itoa(o.holds())
	}
	return []string{
		shownName(o.Name), o.Kind, numberOrDash(int64(o.waiting())), o.who(), label, held, lease, count, numberOrDash(o.Token),
	}
}

// holds is how many holds there are.
func (o *object) holds() (n int) {
	for _, h := range o.info.Holders {
		n += h.Count
	}
	return n
}

func numberOrDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// listTitles are the columns of line.
var listTitles = strings.Fields("NAME KIND >WAITING HOLDER LABEL >HELD >LEASE >COUNT >TOKEN")
