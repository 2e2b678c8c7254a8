package wait_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/wait"
)

// A member is a claim that asks for others, and for which others ask.
type member struct {
	*claim
	name   string
	log    *journal
	alone  bool // it is nobody's member
	tryAll func(others []wait.Member) (wait.Answer, int, bool, error)
}

func (m *member) TryAll(_ context.Context, others []wait.Member) (wait.Answer, int, bool, error) {
	return m.tryAll(others)
}

func (m *member) Enlist() bool {
	if !m.alone {
		m.tell("enlisted")
	}
	return !m.alone
}

func (m *member) Served()          { m.tell("served") }
func (m *member) Refused()         { m.tell("refused") }
func (m *member) tell(what string) { m.log.add(m.name + " " + what) }

// A journal is what members were told, in the order of all.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) { j.mu.Lock(); defer j.mu.Unlock(); j.lines = append(j.lines, line) }

// read returns what is new.
func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// A group is a line of members behind a head that asks when it is let.
type group struct {
	*testing.T
	ls    *wait.Lines
	log   journal
	all   []*member
	got   []<-chan result
	hints *hints
	reply chan func(others []wait.Member) (wait.Answer, int, bool, error)
}

// newGroup is a line of n, whose head has been refused while it was alone.
func newGroup(t *testing.T, n int, ctx func(i int) context.Context) *group {
	g := &group{T: t, ls: wait.NewLines(), hints: newHints()}
	g.reply = make(chan func([]wait.Member) (wait.Answer, int, bool, error), 1)
	for i := range n {
		m := &member{claim: newClaim(always), name: fmt.Sprint(i), log: &g.log}
		m.tryAll = func(others []wait.Member) (wait.Answer, int, bool, error) {
			m.tell(fmt.Sprint("asks for ", len(others)))
			return (<-g.reply)(others)
		}
		if i == 0 {
			g.answer(wait.Answer{After: time.Hour}, 0, true, nil)
		}
		c := t.Context()
		if ctx != nil {
			c = ctx(i)
		}
		g.all = append(g.all, m)
		g.got = append(g.got, until(c, g.ls, "k", m, policy(g.hints)))
	}
	g.log.read()
	return g
}

func (g *group) answer(ans wait.Answer, served int, settled bool, err error) {
	g.reply <- func([]wait.Member) (wait.Answer, int, bool, error) { return ans, served, settled, err }
}

var granted = wait.Answer{Granted: true, After: time.Hour}

// The first who waits asks for those behind it; who is served has it without
// asking, and nobody asks again for the others before there is a hint.
func TestGroupServesThoseBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t, 5, nil)
		g.answer(granted, 2, true, nil)
		g.hints.confirm()
		for _, ch := range g.got[:3] {
			require.NoError(t, (<-ch).err)
		}
		require.Equal(t, []string{
			"1 enlisted", "2 enlisted", "3 enlisted", "4 enlisted", "0 asks for 4",
			"1 served", "2 served", "3 refused", "4 refused",
		}, g.log.read())
		advance(recheck / 2)
		require.Empty(t, g.log.read())
		for _, m := range g.all[1:3] {
			require.Empty(t, m.at(), "asked by itself")
		}
		g.answer(granted, 1, true, nil)
		g.hints.hint()
		require.NoError(t, (<-g.got[3]).err)
		require.NoError(t, (<-g.got[4]).err)
		require.Zero(t, g.ls.Waiting())
	})
}

// A refusal is one of all, and a question without an answer settles nothing.
func TestGroupIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t, 3, nil)
		g.answer(wait.Answer{After: time.Hour}, 0, true, nil)
		g.hints.confirm()
		advance(0)
		require.Equal(t, []string{"1 enlisted", "2 enlisted", "0 asks for 2", "1 refused", "2 refused"}, g.log.read())

		g.log.read()
		g.answer(wait.Answer{Again: 10 * ms}, 0, false, nil)
		g.hints.hint()
		advance(0)
		require.Equal(t, []string{"1 enlisted", "2 enlisted", "0 asks for 2"}, g.log.read(), "nobody knows")

		g.log.read()
		fails := errors.New("no answer")
		g.answer(wait.Answer{}, 0, false, fails)
		advance(10 * ms)
		require.Equal(t, fails, (<-g.got[0]).err)
		require.Equal(t, []string{"1 enlisted", "2 enlisted", "0 asks for 2", "2 enlisted", "1 asks for 1"}, g.log.read(), "the next one goes on")
		g.answer(granted, 1, true, nil)
		require.NoError(t, (<-g.got[1]).err)
		require.NoError(t, (<-g.got[2]).err)
	})
}

func TestGroupIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t, 60, nil)
		g.answer(granted, 31, true, nil)
		g.hints.confirm()
		for _, ch := range g.got[:32] {
			require.NoError(t, (<-ch).err)
		}
		log := g.log.read()
		require.Contains(t, log, "0 asks for 31")
		require.NotContains(t, log, "32 enlisted")
		g.all[40].alone = true
		g.log.read()
		g.answer(granted, 7, true, nil)
		g.hints.hint()
		for _, ch := range g.got[32:40] {
			require.NoError(t, (<-ch).err)
		}
		require.Contains(t, g.log.read(), "32 asks for 7", "no further than to one who is no member")
		g.answer(granted, 0, true, nil)
		g.hints.hint()
		require.NoError(t, (<-g.got[40]).err)
		g.answer(granted, 18, true, nil)
		g.hints.hint()
		for _, ch := range g.got[41:] {
			require.NoError(t, (<-ch).err)
		}
		require.Zero(t, g.ls.Waiting())
	})
}

// A waiter that leaves while the head asks for it is told nothing, though it was served:
// it knows that it was enlisted.
func TestGroupMemberLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g := newGroup(t, 4, func(i int) context.Context {
			if i == 1 {
				return ctx
			}
			return t.Context()
		})
		g.hints.confirm()
		advance(0)
		require.Equal(t, "0 asks for 3", g.log.read()[3])
		cancel()
		require.ErrorIs(t, (<-g.got[1]).err, context.Canceled)
		g.log.read()
		g.answer(granted, 2, true, nil)
		require.NoError(t, (<-g.got[0]).err)
		require.NoError(t, (<-g.got[2]).err)
		require.Equal(t, []string{"2 served", "3 refused"}, g.log.read())
		g.answer(granted, 0, true, nil)
		g.hints.hint()
		require.NoError(t, (<-g.got[3]).err)
	})
}

// together is a policy by which a grant is one to all who waited.
func together(h *hints) *wait.Policy {
	p := policy(h)
	p.Exclusive, p.Together = false, true
	return p
}

// A grant to the head lets in all who stood in line when it asked; who has come
// since asks for himself.
func TestTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h := wait.NewLines(), newHints()
		asking := make(chan wait.Answer)
		head := newClaim(func(int) (wait.Answer, error) { return <-asking, nil })
		other := func() *claim { return newClaim(refuse(0, wait.Answer{})) }
		first := until(t.Context(), ls, "k", head, together(h))
		asking <- wait.Answer{After: time.Hour}
		early := other()
		second := until(t.Context(), ls, "k", early, together(h))
		h.confirm()
		advance(0)
		late := other()
		third := until(t.Context(), ls, "k", late, together(h))
		asking <- granted
		for _, ch := range []<-chan result{first, second, third} {
			require.NoError(t, (<-ch).err)
		}
		require.Empty(t, early.at(), "asked, though it was let in")
		require.Len(t, late.at(), 1, "the answer may be older than it")
	})
}

// Where the answer says so, only those are let in that stood in line at the
// question before, which was refused.
func TestTogetherWithThoseOfBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h := wait.NewLines(), newHints()
		asking := make(chan wait.Answer)
		head := newClaim(func(int) (wait.Answer, error) { return <-asking, nil })
		other := func() *claim { return newClaim(refuse(0, wait.Answer{})) }
		first := until(t.Context(), ls, "k", head, together(h))
		asking <- wait.Answer{After: time.Hour}
		early := other()
		second := until(t.Context(), ls, "k", early, together(h))
		h.confirm()
		advance(0)
		asking <- wait.Answer{After: time.Hour} // early stood there
		advance(0)
		late := other()
		third := until(t.Context(), ls, "k", late, together(h))
		h.hint()
		advance(0)
		asking <- wait.Answer{Granted: true, Earlier: true}
		for _, ch := range []<-chan result{first, second, third} {
			require.NoError(t, (<-ch).err)
		}
		require.Empty(t, early.at())
		require.Len(t, late.at(), 1, "it had come after the question that was refused")
	})
}

// A grant to the head sends the others out of the line, to ask by themselves; it is
// as if each had never waited.
func TestApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ls, h := wait.NewLines(), newHints()
		apart := func() *wait.Policy {
			p := policy(h)
			p.Exclusive, p.Apart = false, true
			return p
		}
		first := until(t.Context(), ls, "k", newClaim(refuse(2, wait.Answer{After: time.Hour})), apart())
		var others []*claim
		var all []<-chan result
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			c := newClaim(refuse(0, wait.Answer{}))
			others, all = append(others, c), append(all, until(ctx, ls, "k", c, apart()))
		}
		h.confirm()
		advance(time.Second)
		require.Equal(t, 4, ls.Waiting())
		h.hint()
		require.NoError(t, (<-first).err)
		for i, ch := range all {
			require.ErrorIs(t, (<-ch).err, wait.ErrInterrupted)
			require.Empty(t, others[i].at())
		}
		cancel()
		require.Zero(t, ls.Waiting())
		require.False(t, ls.Waits("k"))
		require.Equal(t, 1, h.closed)

		// Whoever gives up in that moment has nothing either.
		ctx, cancel = context.WithCancel(t.Context())
		h = newHints()
		asking := make(chan wait.Answer)
		first = until(t.Context(), ls, "k", newClaim(func(int) (wait.Answer, error) { return <-asking, nil }), apart())
		second := until(ctx, ls, "k", newClaim(refuse(0, wait.Answer{})), apart())
		asking <- granted
		cancel()
		require.NoError(t, (<-first).err)
		require.Error(t, (<-second).err)
		require.False(t, ls.Waits("k"))
	})
}
