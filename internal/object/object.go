// Package object finds the locks and other objects in Redis, for the command and
// for the page.
package object

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/text"
)

// An Object is what the commands show of a name, as JSON has it. docs/cli.md
// describes the fields.
type Object struct {
	Name      string   `json:"name"`
	NameBytes string   `json:"name_base64,omitempty"`
	Kind      string   `json:"kind"`
	Holders   []Holder `json:"holders"`
	Waiters   []Waiter `json:"waiters"`
	Listeners int      `json:"listeners"`
	LeaseMs   int64    `json:"lease_ms"`
	Token     int64    `json:"token"`
	Count     int64    `json:"count"`
	At        string   `json:"at"`
	Beside    string   `json:"beside,omitempty"`

	// Info is what the object was made of.
	Info latchkey.Info `json:"-"`
	// Word is for the number of a counter, if it is known what that counts.
	Word string `json:"-"`
}

// A Holder is a holder of an object.
type Holder struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Since   string `json:"since,omitempty"`
	Ended   string `json:"ended,omitempty"`
	Count   int    `json:"count"`
	LeaseMs int64  `json:"lease_ms"`
	Mode    string `json:"mode,omitempty"`
	Value   string `json:"value,omitempty"`
}

// A Waiter is a waiter in a queue.
type Waiter struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Since    string `json:"since,omitempty"`
	Deadline string `json:"deadline,omitempty"`
}

// KindFree is the kind that commands show for a name without an object.
const KindFree = "free"

// New returns what the commands show of info.
func New(info latchkey.Info) *Object {
	o := &Object{
		Name: info.Name, Kind: kindText(info.Kind), Listeners: info.Listeners, LeaseMs: millis(info.Lease),
		Token: info.Token, Count: info.Count, At: Instant(info.At),
		Holders: []Holder{}, Waiters: []Waiter{}, Beside: cmp.Or(About(info.Name), ofJob(info.Name)), Info: info,
	}
	o.NameBytes = Bytes(info.Name)
	for _, h := range info.Holders {
		o.Holders = append(o.Holders, Holder{
			ID: h.ID, Label: h.Label, Host: h.Host, PID: h.PID, Since: Instant(h.Since), Ended: Instant(h.Ended), Count: h.Count,
			LeaseMs: millis(h.Lease), Mode: h.Mode, Value: h.Value,
		})
	}
	for _, w := range info.Waiters {
		o.Waiters = append(o.Waiters, Waiter{
			ID: w.ID, Label: w.Label, Host: w.Host, PID: w.PID, Since: Instant(w.Since), Deadline: Instant(w.Deadline),
		})
	}
	return o
}

// Bytes returns in base64 the bytes of a name that JSON cannot have, because it is not
// UTF-8; empty for any other name.
func Bytes(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(name))
}

func kindText(k latchkey.Kind) string {
	if k == latchkey.KindFree {
		return KindFree
	}
	return string(k)
}

// millis returns a lease in ms for programs, or -1 if it has no end.
func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// Instant formats a time for programs; empty if it is unknown.
func Instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Counted reports whether the kind has a number of permits or a count.
func (o *Object) Counted() bool {
	switch o.Info.Kind {
	case latchkey.KindSemaphore, latchkey.KindPermitSemaphore, latchkey.KindLatch, latchkey.KindCounter:
		return true
	}
	return false
}

// Waiting returns how many wait, as far as Redis knows: the length of the
// queue, or else the number of connections that listen.
func (o *Object) Waiting() int { return max(len(o.Waiters), o.Listeners, 0) }

// HeldFor returns for how long the object has been held, as far as that is
// known.
func (o *Object) HeldFor() (longest time.Duration) {
	for _, h := range o.Info.Holders {
		if !h.Since.IsZero() {
			longest = max(longest, o.Info.At.Sub(h.Since))
		}
	}
	return longest
}

// Who describes the holder in a few words.
func (o *Object) Who() string {
	switch len(o.Info.Holders) {
	case 0:
		return "-"
	case 1:
		return text.Name(o.Info.Holders[0].ID)
	}
	noun := " holders"
	switch o.Info.Kind {
	case latchkey.KindPermitSemaphore:
		noun = " permits out"
	case latchkey.KindReadWrite:
		noun = " readers"
		for _, h := range o.Info.Holders {
			if h.Mode == "write" {
				noun = " holds of a writer"
			}
		}
	}
	return strconv.Itoa(len(o.Info.Holders)) + noun
}

// Process describes the process that set a label; "-" if it is unknown.
func Process(host string, pid int) string {
	if host == "" {
		return "-"
	}
	return text.Name(host) + ":" + strconv.Itoa(pid)
}

// Held returns the holder with that id, or nil.
func (o *Object) Held(id string) *latchkey.HolderInfo {
	for i := range o.Info.Holders {
		if o.Info.Holders[i].ID == id {
			return &o.Info.Holders[i]
		}
	}
	return nil
}

// LeastPrefix is how many bytes of a holder id say whose it is.
const LeastPrefix = 4

// HeldBy returns the ids of the holders that begin with prefix, which may end as
// tables show an id that they cut.
func (o *Object) HeldBy(prefix string) (ids []string) {
	prefix = strings.TrimSuffix(prefix, "…")
	for i := range o.Info.Holders {
		if id := o.Info.Holders[i].ID; len(prefix) >= LeastPrefix && strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	return ids
}
