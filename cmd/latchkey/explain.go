package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/inspect"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

const explainHelp = `explain tells who holds NAME, what that holder waits for itself, who holds that,
and so on, and names a deadlock if there is one. What holders wait for, only
clients with the option WithWaitGraph publish, after a second.

Exit status: 0 there is no deadlock, as far as is known; 1 there is, or may be, one.`

func newExplain(conn *connection) *cobra.Command {
	out := new(terminal.Printer)
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Show what the holders of a lock wait for, and find deadlocks",
		Long:  explainHelp,
		Args:  oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			out.To(cmd.OutOrStdout())
			return conn.session(func(ctx context.Context, s *session) error {
				x, err := explain(ctx, s.client, args[0])
				if err != nil {
					return err
				}
				if err := out.Show(x, func() { x.print(out) }); err != nil {
					return err
				}
				if len(x.Deadlocks) > 0 {
					return &exit.Error{Code: exit.Failed}
				}
				return nil
			})
		},
		ValidArgsFunction: conn.completeName,
	}
	terminal.JSONVar(cmd, out)
	return cmd
}

const (
	// mostExplained is the most objects that explain reads.
	mostExplained = 100
	// mostIdle is the most holders of an object that are listed and wait for nothing
	// that is known.
	mostIdle = 10
)

// An explanation is what explain shows, as JSON has it. docs/cli.md describes the
// fields.
type explanation struct {
	Objects   []*explained `json:"objects"`
	Deadlocks []deadlock   `json:"deadlocks"`

	byName map[string]*explained
	more   bool // there are more objects than were read
}

// An explained is an object and what its holders wait for.
type explained struct {
	Name      string            `json:"name"`
	NameBytes string            `json:"name_base64,omitempty"`
	Kind      string            `json:"kind"`
	Holders   []explainedHolder `json:"holders"`

	info latchkey.Info
}

type explainedHolder struct {
	object.Holder
	Waits []explainedWait `json:"waits"`

	info latchkey.HolderInfo
}

type explainedWait struct {
	Kind      string `json:"kind"` // of the primitive
	Name      string `json:"name"`
	NameBytes string `json:"name_base64,omitempty"`
	WaitedMs  int64  `json:"waited_ms"`

	name string
}

// A deadlock is a cycle of objects: who holds one waits for the next.
type deadlock struct {
	Names []string `json:"names"` // the last is the first
	// Perhaps is set if holders of one of the objects need not exclude each other.
	Perhaps bool `json:"perhaps,omitempty"`
}

// explain reads name, and what is waited for from there.
func explain(ctx context.Context, client *latchkey.Client, name string) (*explanation, error) {
	x := &explanation{Deadlocks: []deadlock{}, byName: map[string]*explained{}}
	for next := []string{name}; len(next) > 0; next = next[1:] {
		if x.byName[next[0]] != nil {
			continue
		}
		if len(x.Objects) == mostExplained {
			x.more = true
			break
		}
		o, err := readExplained(ctx, client, next[0])
		if errors.Is(err, latchkey.ErrKeyConflict) && len(x.Objects) > 0 {
			continue // who waits for that, waits no longer
		}
		if err != nil {
			return nil, err
		}
		x.Objects = append(x.Objects, o)
		x.byName[next[0]] = o
		for _, h := range o.Holders {
			for _, w := range h.Waits {
				next = append(next, w.name)
			}
		}
	}
	x.find(name, nil, map[string]bool{})
	return x, nil
}

func readExplained(ctx context.Context, client *latchkey.Client, name string) (*explained, error) {
	info, err := client.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	shown := object.New(info)
	o := &explained{Name: shown.Name, NameBytes: shown.NameBytes, Kind: shown.Kind, Holders: []explainedHolder{}, info: info}
	var ids []string
	if info.Kind != latchkey.KindPermitSemaphore { // permits are not holders
		for _, h := range info.Holders {
			ids = append(ids, h.ID)
		}
	}
	waits, err := inspect.Waits(ctx, client, name, ids)
	if err != nil {
		return nil, err
	}
	for i, h := range info.Holders {
		holder := explainedHolder{Holder: shown.Holders[i], Waits: []explainedWait{}, info: h}
		for _, w := range waits[h.ID] {
			wait := explainedWait{Kind: w.Kind, Name: w.Key, NameBytes: object.Bytes(w.Key), WaitedMs: max(info.At.Sub(w.Since), 0).Milliseconds(), name: w.Key}
			holder.Waits = append(holder.Waits, wait)
		}
		o.Holders = append(o.Holders, holder)
	}
	// Those that wait come first.
	slices.SortStableFunc(o.Holders, func(a, b explainedHolder) int { return len(b.Waits) - len(a.Waits) })
	return o, nil
}

// find finds the deadlocks from name on. path leads there.
func (x *explanation) find(name string, path []string, seen map[string]bool) {
	if i := slices.Index(path, name); i >= 0 {
		d := deadlock{Names: append(slices.Clone(path[i:]), name)}
		for _, n := range d.Names {
			d.Perhaps = d.Perhaps || x.byName[n].info.Kind == latchkey.KindMultiLock
		}
		x.Deadlocks = append(x.Deadlocks, d)
		return
	}
	o := x.byName[name]
	if o == nil || seen[name] {
		return
	}
	seen[name] = true
	for _, next := range o.next() {
		x.find(next, append(slices.Clip(path), name), seen)
	}
}

// next returns what the holders of o wait for.
func (o *explained) next() (names []string) {
	for _, h := range o.Holders {
		for _, w := range h.Waits {
			if !slices.Contains(names, w.name) {
				names = append(names, w.name)
			}
		}
	}
	return names
}

// print prints the objects like a stack, and then the deadlocks.
func (x *explanation) print(out *terminal.Printer) {
	first := x.Objects[0]
	out.Printf("%s  %s\n", text.Name(first.info.Name), out.Paint("1", first.Kind))
	x.printHolders(out, first, "  ", nil, map[string]bool{})
	if x.more {
		out.Printf("there is more: %d objects were read\n", len(x.Objects))
	}
	for _, d := range x.Deadlocks {
		shown := make([]string, len(d.Names))
		for i, n := range d.Names {
			shown[i] = text.Name(n)
		}
		word, why := "deadlock: ", ""
		if d.Perhaps {
			word, why = "perhaps a deadlock: ", " (holders of different values do not exclude each other)"
		}
		out.Printf("%s%s%s\n", out.Paint("31", word), strings.Join(shown, " → "), why)
	}
}

// printHolders prints the holders of o, and what they wait for.
func (x *explanation) printHolders(out *terminal.Printer, o *explained, indent string, path []string, seen map[string]bool) {
	name := o.info.Name
	seen[name] = true
	path = append(slices.Clip(path), name)
	if len(o.Holders) == 0 {
		out.Printf("%s%s\n", indent, o.unheld())
	}
	for i, h := range o.Holders {
		if idle := len(o.Holders) - i; len(h.Waits) == 0 && idle > mostIdle+1 && i >= mostIdle {
			out.Printf("%sand %d more, that publish nothing\n", indent, idle)
			break
		}
		out.Printf("%s%s\n", indent, h.describe(o))
		if len(h.Waits) == 0 {
			out.Printf("%s  %s\n", indent, o.idle())
		}
		for _, w := range h.Waits {
			next := x.byName[w.name]
			line := indent + "  waits " + text.Span(time.Duration(w.WaitedMs)*time.Millisecond) + " for " + text.Name(w.name)
			switch {
			case slices.Contains(path, w.name):
				out.Printf("%s, which is above\n", line)
			case next == nil:
				out.Printf("%s, which was not read\n", line)
			case seen[w.name]:
				out.Printf("%s, see above\n", line)
			default:
				out.Printf("%s  %s\n", line, out.Paint("1", next.Kind))
				x.printHolders(out, next, indent+"    ", path, seen)
			}
		}
	}
}

// describe tells who h is.
func (h *explainedHolder) describe(o *explained) string {
	line := strings.TrimPrefix(whoHas(&latchkey.TakenError{Holders: []latchkey.HolderInfo{h.info}, At: o.info.At}), ": ")
	if h.Mode != "" {
		line += ", to " + text.Phrase(h.Mode)
	}
	if h.Label != "" {
		line += ", holder " + text.Name(h.ID)
	}
	return line
}

// unheld tells why o has no holders.
func (o *explained) unheld() string {
	switch o.info.Kind {
	case latchkey.KindLatch:
		return "nobody holds a latch: it ends when it is counted down"
	case latchkey.KindSemaphore, latchkey.KindCounter:
		return "who has permits, Redis does not know"
	}
	return "nobody holds it"
}

// idle tells what it means that a holder of o has published nothing.
func (o *explained) idle() string {
	if o.info.Kind == latchkey.KindPermitSemaphore {
		return "what it waits for, nobody publishes of a permit"
	}
	return "waits for nothing, or its client does not publish it (WithWaitGraph)"
}
