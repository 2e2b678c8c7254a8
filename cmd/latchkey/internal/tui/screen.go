// Package tui shows the screen of top on a terminal.
package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/listing"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

// A Source provides the objects that a screen shows.
type Source struct {
	Addr  string        // of Redis, in messages
	Delay time.Duration // between two looks
	// Look returns the present objects. It reads all key names if rescan is
	// true.
	Look func(ctx context.Context, rescan bool) ([]*object.Object, error)
	// Explain returns the error of a look in words for people.
	Explain func(error) error
}

// Show shows a source on the terminal that out writes to, until the user quits
// or ctx ends. It returns an error of the first look, because there is nothing
// to show then. Later errors are shown on the screen.
func Show(ctx context.Context, out *terminal.Printer, src *Source) error {
	m := &screen{Source: src, ctx: ctx, colour: out.Colour}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(out.Writer)).Run()
	if m.failure != nil {
		return m.failure
	}
	return err
}

// A screen is the state of Show.
type screen struct {
	*Source
	ctx    context.Context
	colour bool

	objects       []*object.Object
	at            time.Time // time of the last successful look
	failure       error     // of the first look, when there is nothing to show
	trouble       error     // of the last look
	width, height int

	order     object.Order
	contended bool   // only objects with waiters
	selected  string // name; empty for the first object
	detail    bool
	rescanNow bool // the next look reads all key names
}

// A looked is the result of a look.
type looked struct {
	objects []*object.Object
	err     error
}

// due says that it is time for a look.
type due struct{}

// Init starts with a look.
func (m *screen) Init() tea.Cmd { return m.lookNow(false) }

func (m *screen) lookNow(rescan bool) tea.Cmd {
	return func() tea.Msg {
		objects, err := m.Look(m.ctx, rescan)
		return looked{objects, err}
	}
}

// Update handles an event.
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case due:
		rescan := m.rescanNow
		m.rescanNow = false
		return m, m.lookNow(rescan)
	case looked:
		m.trouble = msg.err
		if msg.err != nil && m.at.IsZero() {
			m.failure = msg.err
			return m, tea.Quit
		}
		if msg.err == nil {
			m.objects, m.at = msg.objects, time.Now()
		}
		return m, tea.Tick(m.Delay, func(time.Time) tea.Msg { return due{} })
	}
	return m, nil
}

func (m *screen) key(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "esc":
		if !m.detail {
			return tea.Quit
		}
		m.detail = false
	case "enter":
		m.detail = !m.detail
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.room())
	case "pgdown":
		m.move(m.room())
	case "home", "g":
		m.move(-len(m.objects))
	case "end", "G":
		m.move(len(m.objects))
	case "s":
		m.order = m.order.Next()
	case "c":
		m.contended = !m.contended
	case "r":
		m.rescanNow = true
	}
	return nil
}

// shownObjects returns the objects in the list, in order.
func (m *screen) shownObjects() []*object.Object {
	var all []*object.Object
	for _, o := range m.objects {
		if !m.contended || o.Waiting() > 0 {
			all = append(all, o)
		}
	}
	m.order.Sort(all)
	return all
}

// place returns the index of the selected object in the list, or 0 if it has
// gone.
func (m *screen) place(list []*object.Object) int {
	for i, o := range list {
		if o.Name == m.selected {
			return i
		}
	}
	return 0
}

func (m *screen) move(by int) {
	list := m.shownObjects()
	if len(list) == 0 {
		return
	}
	m.selected = list[min(max(m.place(list)+by, 0), len(list)-1)].Name
}

// frame is the number of lines outside the list: two above, its titles, two
// below.
const frame = 5

// room returns how many objects fit on the screen.
func (m *screen) room() int { return max(m.height-frame, 1) }

// View returns the present screen.
func (m *screen) View() tea.View {
	var b strings.Builder
	out := &terminal.Printer{Writer: &b, Colour: m.colour, Width: m.width}
	list := m.shownObjects()
	out.Printf("%s\n%s\n", m.summary(out), m.failed(out))
	switch place := m.place(list); {
	case m.at.IsZero():
		out.Printf("reading key names...\n")
	case m.detail && len(list) > 0:
		listing.Print(list[place], out)
	default:
		m.writeList(out, list, place)
	}
	v := tea.NewView(m.fit(b.String(), m.footer(out)))
	v.AltScreen = true
	v.WindowTitle = "latchkey top"
	return v
}

func (m *screen) summary(out *terminal.Printer) string {
	contended, waiting := 0, 0
	for _, o := range m.objects {
		if n := o.Waiting(); n > 0 {
			contended, waiting = contended+1, waiting+n
		}
	}
	at := ""
	if !m.at.IsZero() {
		at = " " + m.at.Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s%s  %d names, %d waited for, %d waiting  Redis at %s", out.Paint("1", "latchkey top"), at, len(m.objects), contended, waiting, m.Addr)
}

// failed returns the line that tells why the last look failed, so that what is
// shown is old.
func (m *screen) failed(out *terminal.Printer) string {
	if m.trouble == nil {
		return ""
	}
	return out.Paint("31", text.Harmless(m.Explain(m.trouble).Error()))
}

func (m *screen) writeList(out *terminal.Printer, list []*object.Object, place int) {
	if len(list) == 0 {
		out.Printf("nothing is held%s\n", map[bool]string{true: " that others wait for"}[m.contended])
		return
	}
	first := min(max(place-m.room()/2, 0), max(len(list)-m.room(), 0))
	last := min(first+m.room(), len(list))
	var b strings.Builder
	listing.Table(list[first:last]).Print(&terminal.Printer{Writer: &b, Colour: out.Colour, Width: max(m.width-len("> "), 0)})
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		switch at := first + i - 1; {
		case i == 0:
			out.Printf("  %s\n", line)
		case at == place:
			out.Printf("%s\n", out.Paint("7", "> "+line))
		case list[at].Waiting() > 0:
			out.Printf("  %s\n", out.Paint("33", line))
		default:
			out.Printf("  %s\n", line)
		}
	}
}

func (m *screen) footer(out *terminal.Printer) string {
	keys := "enter details  c " + map[bool]string{false: "only waited for", true: "all"}[m.contended] + "  s by " + m.order.String() + "  r rescan  q quit"
	if m.detail {
		keys = "enter or esc back to the list  q quit"
	}
	return out.Paint("2", keys)
}

// fit cuts text to the screen and puts the footer on the last line.
func (m *screen) fit(text, footer string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if m.height > 0 {
		lines = lines[:min(len(lines), max(m.height-2, 1))]
		for len(lines) < m.height-1 {
			lines = append(lines, "")
		}
	}
	lines = append(lines, footer)
	if m.width > 0 {
		for i, line := range lines {
			lines[i] = ansi.Truncate(line, m.width, "…")
		}
	}
	return strings.Join(lines, "\n")
}
