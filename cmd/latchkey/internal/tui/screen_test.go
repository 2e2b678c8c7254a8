package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/object"
)

// sample returns an object that was held for some seconds, with so many waiters.
func sample(name string, held, waiters int) *object.Object {
	now := time.Now()
	info := latchkey.Info{Name: name, Kind: latchkey.KindLock, At: now, Lease: 20 * time.Second, Listeners: waiters, Holders: []latchkey.HolderInfo{
		{ID: "c:1", Label: "label of " + name, Host: "h", PID: 7, Since: now.Add(-time.Duration(held) * time.Second), Count: 1, Lease: 20 * time.Second},
	}}
	return object.New(info)
}

func newScreen(t *testing.T, objects ...*object.Object) *screen {
	t.Helper()
	explain := func(err error) error { return errors.New("Redis at host:1: " + err.Error()) }
	m := &screen{Source: &Source{Addr: "host:1", Delay: time.Hour, Explain: explain}, ctx: context.Background()}
	m.send(tea.WindowSizeMsg{Width: 100, Height: 12})
	if objects != nil {
		m.send(looked{objects: objects})
	}
	return m
}

func (m *screen) send(msg tea.Msg) tea.Cmd {
	_, cmd := m.Update(msg)
	return cmd
}

func press(m *screen, keys ...string) (cmd tea.Cmd) {
	for _, k := range keys {
		cmd = m.key(k)
	}
	return cmd
}

func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, ok := cmd().(tea.QuitMsg)
	return ok
}

// lines are what the screen shows.
func (m *screen) lines() []string { return strings.Split(ansi.Strip(m.View().Content), "\n") }

// listed are the names in the list; the selected one has a > before it.
func (m *screen) listed() (all []string) {
	for _, line := range m.lines()[3:] {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "enter" {
			all = append(all, strings.TrimSpace(line[:2])+strings.Fields(line[2:])[0])
		}
	}
	return all
}

func TestScreen(t *testing.T) {
	m := newScreen(t)
	assert.Contains(t, m.View().Content, "reading key names...")
	m = newScreen(t, sample("a", 5, 0), sample("b", 1, 3), sample("c", 9, 1))
	assert.True(t, m.View().AltScreen)
	assert.Regexp(t, `^latchkey top \d\d:\d\d:\d\d  3 names, 2 waited for, 4 waiting  Redis at host:1$`, m.lines()[0])
	assert.Equal(t, []string{">b", "c", "a"}, m.listed(), "those that most wait for come first")
	press(m, "s")
	assert.Equal(t, []string{">c", "a", "b"}, m.listed())
	press(m, "s")
	assert.Equal(t, []string{">a", "b", "c"}, m.listed())
	press(m, "down", "down", "down")
	assert.Equal(t, []string{"a", "b", ">c"}, m.listed())
	press(m, "c")
	assert.Equal(t, []string{"b", ">c"}, m.listed(), "only those that are waited for")
	press(m, "c", "up", "enter")
	assert.Equal(t, "b  lock", m.lines()[2])
	assert.Contains(t, strings.Join(m.lines(), "\n"), "label of b")
	assert.False(t, quits(press(m, "esc")), "back to the list")
	assert.Equal(t, []string{"a", ">b", "c"}, m.listed())

	// What is selected stays so while others come and go.
	m.send(looked{objects: []*object.Object{sample("0", 1, 0), sample("b", 1, 3)}})
	assert.Equal(t, []string{"0", ">b"}, m.listed())
	m.send(looked{objects: []*object.Object{sample("0", 1, 0), sample("z", 1, 0)}})
	assert.Equal(t, []string{">0", "z"}, m.listed())
	m.send(looked{objects: []*object.Object{}})
	assert.Contains(t, m.View().Content, "nothing is held")
	press(m, "down", "enter", "esc")

	for _, key := range []string{"q", "ctrl+c", "esc"} {
		assert.True(t, quits(press(m, key)), key)
	}
}

func TestScreenFits(t *testing.T) {
	var many []*object.Object
	for i := range 50 {
		many = append(many, sample(fmt.Sprintf("lock-%02d", i), i, 0))
	}
	many = append(many, sample("\x1b[2J\u202e"+strings.Repeat("日本", 100), 1, 0))
	m := newScreen(t, many...)
	m.colour = true
	for _, size := range [][2]int{{100, 12}, {20, 5}, {300, 60}, {1, 1}, {0, 0}} {
		m.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, key := range []string{"end", "home", "pgdown", "pgup", "down", "enter", "enter"} {
			press(m, key)
			lines := strings.Split(m.View().Content, "\n")
			if size[1] > 1 {
				assert.LessOrEqual(t, len(lines), size[1], key)
			}
			for _, line := range lines {
				assert.True(t, size[0] == 0 || ansi.StringWidth(line) <= size[0], "%q", line)
				assert.NotContains(t, line, "\x1b[2J")
				assert.NotContains(t, line, "\u202e")
			}
		}
	}
	m.send(tea.WindowSizeMsg{Width: 100, Height: 12})
	press(m, "end")
	list := m.listed()
	assert.Len(t, list, 7)
	assert.Equal(t, ">", list[len(list)-1][:1])
}

func TestScreenTrouble(t *testing.T) {
	m := newScreen(t)
	assert.True(t, quits(m.send(looked{err: errors.New("no")})), "there was nothing to show yet")
	require.EqualError(t, m.failure, "no")

	m = newScreen(t, sample("a", 5, 0))
	cmd := m.send(looked{err: errors.New("gone\x1b[2J")})
	assert.False(t, m.failure != nil)
	assert.NotNil(t, cmd, "it looks again")
	assert.Contains(t, m.lines()[1], "Redis at host:1: gone?[2J")
	assert.Equal(t, []string{">a"}, m.listed())
	m.send(looked{objects: []*object.Object{sample("a", 6, 0)}})
	assert.NotContains(t, m.lines()[1], "gone")
}
