package listing

import (
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

// Print prints everything known about an object.
func Print(o *object.Object, out *terminal.Printer) {
	out.Printf("%s  %s\n", text.Name(o.Name), out.Paint("1", o.Kind))
	if o.Beside != "" {
		out.Printf("  this is    %s\n", o.Beside)
	}
	if o.Info.Kind != latchkey.KindFree && !o.Counted() {
		out.Printf("  lease      %s\n", text.Lease(o.Info.Lease))
	}
	if o.Counted() {
		out.Printf("  %s  %d\n", countWord(o), o.Count)
		if n := len(o.Holders); n > 0 {
			out.Printf("  out        %d\n", n)
		}
		if o.Info.Lease > 0 {
			out.Printf("  vanishes   in %s\n", text.Span(o.Info.Lease))
		}
	}
	if o.Token > 0 {
		out.Printf("  token      %d\n", o.Token)
	}
	if o.Listeners > 0 {
		out.Printf("  listeners  %d\n", o.Listeners)
	}
	if len(o.Holders) > 0 {
		out.Printf("\n")
		holderTable(o).Print(out)
	}
	if len(o.Waiters) > 0 {
		out.Printf("\n")
		waiterTable(o).Print(out)
	}
}

// Words for what a number counts, nine letters wide.
const (
	CountLeft      = "left     "
	CountAvailable = "available"
)

// countWord returns the word for what the object's number counts, nine letters
// wide.
func countWord(o *object.Object) string {
	switch {
	case o.Info.Kind == latchkey.KindLatch:
		return CountLeft
	case o.Info.Kind != latchkey.KindCounter:
		return CountAvailable
	case o.Word != "" && o.Beside == "":
		return o.Word
	}
	return "value    "
}

func holderTable(o *object.Object) *terminal.Table {
	t := &terminal.Table{Titles: []string{"HOLDER", "MODE", ">COUNT", ">HELD", ">LEASE", "LABEL", "PROCESS"}}
	for _, h := range o.Info.Holders {
		mode := h.Mode
		if h.Value != "" {
			mode = h.Value
		}
		t.Add(text.Name(h.ID), text.OrDash(text.Phrase(mode)), strconv.Itoa(h.Count), held(h, o.Info.At), text.Lease(h.Lease),
			text.OrDash(text.Phrase(h.Label)), object.Process(h.Host, h.PID))
	}
	return t
}

func waiterTable(o *object.Object) *terminal.Table {
	t := &terminal.Table{Titles: []string{">PLACE", "WAITER", ">WAITS", ">DEADLINE", "LABEL", "PROCESS"}}
	for i, w := range o.Info.Waiters {
		deadline := "-"
		if !w.Deadline.IsZero() {
			deadline = text.Span(w.Deadline.Sub(o.Info.At))
		}
		t.Add(strconv.Itoa(i+1), text.OrDash(text.Phrase(w.ID)), text.Since(w.Since, o.Info.At), deadline,
			text.OrDash(text.Phrase(w.Label)), object.Process(w.Host, w.PID))
	}
	return t
}

// PrintWaiters prints the queue, or what is known without one.
func PrintWaiters(o *object.Object, out *terminal.Printer) {
	switch {
	case len(o.Waiters) > 0:
		waiterTable(o).Print(out)
	case o.Listeners > 0:
		listen := "connections listen"
		if o.Listeners == 1 {
			listen = "connection listens"
		}
		out.Printf("%d %s for %s; who waits there, nobody else knows\n", o.Listeners, listen, text.Name(o.Name))
	case o.Listeners < 0:
		out.Printf("nobody stands in a queue for %s; who listens, this server does not tell\n", text.Name(o.Name))
	default:
		out.Printf("nobody waits for %s\n", text.Name(o.Name))
	}
}

// line returns the object's row in the table of ls.
func line(o *object.Object) []string {
	label, since := "-", "-"
	if len(o.Info.Holders) > 0 {
		h := o.Info.Holders[0]
		label, since = text.OrDash(text.Phrase(h.Label)), held(h, o.Info.At)
		if n := len(o.Info.Holders) - 1; n > 0 && label != "-" {
			label += " +" + strconv.Itoa(n)
		}
	}
	lease, count := "-", "-"
	switch {
	case o.Counted():
		count = strconv.FormatInt(o.Count, 10)
	case len(o.Info.Holders) > 0:
		lease, count = text.Lease(o.Info.Lease), strconv.Itoa(holds(o))
	}
	return []string{
		text.Name(o.Name), o.Kind, numberOrDash(int64(o.Waiting())), o.Who(), label, since, lease, count, numberOrDash(o.Token),
	}
}

// held says for how long a holder has had the object, or when its work ended.
func held(h latchkey.HolderInfo, at time.Time) string {
	if !h.Ended.IsZero() {
		return "ended " + text.Since(h.Ended, at) + " ago"
	}
	return text.Since(h.Since, at)
}

// holds returns the number of holds.
func holds(o *object.Object) (n int) {
	for _, h := range o.Info.Holders {
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
var listTitles = strings.Fields("~NAME KIND >WAITING -<HOLDER ~LABEL >HELD >LEASE ->COUNT ->TOKEN")

// Table returns the table of ls and top.
func Table(objects []*object.Object) *terminal.Table {
	t := &terminal.Table{Titles: listTitles, OneLine: true}
	for _, o := range objects {
		t.Add(line(o)...)
	}
	return t
}
