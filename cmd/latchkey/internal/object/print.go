package object

import (
	"strconv"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/text"
)

// Print prints everything known about the object.
func (o *Object) Print(out *text.Printer) {
	out.Printf("%s  %s\n", text.Name(o.Name), out.Paint("1", o.Kind))
	if o.Beside != "" {
		out.Printf("  this is    %s\n", o.Beside)
	}
	if o.info.Kind != latchkey.KindFree && !o.counted() {
		out.Printf("  lease      %s\n", text.Lease(o.info.Lease))
	}
	if o.counted() {
		out.Printf("  %s  %d\n", o.countWord(), o.Count)
		if n := len(o.Holders); n > 0 {
			out.Printf("  out        %d\n", n)
		}
		if o.info.Lease > 0 {
			out.Printf("  vanishes   in %s\n", text.Span(o.info.Lease))
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
		o.holderTable().Print(out)
	}
	if len(o.Waiters) > 0 {
		out.Printf("\n")
		o.waiterTable().Print(out)
	}
}

// Words for what a number counts, nine letters wide.
const (
	CountLeft      = "left     "
	CountAvailable = "available"
)

// countWord returns the word for what the object's number counts, nine letters
// wide.
func (o *Object) countWord() string {
	switch {
	case o.info.Kind == latchkey.KindLatch:
		return CountLeft
	case o.info.Kind != latchkey.KindCounter:
		return CountAvailable
	case o.word != "" && o.Beside == "":
		return o.word
	}
	return "value    "
}

func (o *Object) holderTable() *text.Table {
	t := &text.Table{Titles: []string{"HOLDER", "MODE", ">COUNT", ">HELD", ">LEASE", "LABEL", "PROCESS"}}
	for _, h := range o.info.Holders {
		mode := h.Mode
		if h.Value != "" {
			mode = h.Value
		}
		t.Add(text.Name(h.ID), text.OrDash(text.Phrase(mode)), strconv.Itoa(h.Count), held(h, o.info.At), text.Lease(h.Lease),
			text.OrDash(text.Phrase(h.Label)), Process(h.Host, h.PID))
	}
	return t
}

func (o *Object) waiterTable() *text.Table {
	t := &text.Table{Titles: []string{">PLACE", "WAITER", ">WAITS", ">DEADLINE", "LABEL", "PROCESS"}}
	for i, w := range o.info.Waiters {
		deadline := "-"
		if !w.Deadline.IsZero() {
			deadline = text.Span(w.Deadline.Sub(o.info.At))
		}
		t.Add(strconv.Itoa(i+1), text.OrDash(text.Phrase(w.ID)), text.Since(w.Since, o.info.At), deadline,
			text.OrDash(text.Phrase(w.Label)), Process(w.Host, w.PID))
	}
	return t
}

// PrintWaiters prints the queue, or what is known without one.
func (o *Object) PrintWaiters(out *text.Printer) {
	switch {
	case len(o.Waiters) > 0:
		o.waiterTable().Print(out)
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
