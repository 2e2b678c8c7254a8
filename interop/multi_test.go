package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

// A multi is several reentrant locks that are taken together, seen from both
// sides.
type multi struct {
	*rig
	kind    string   // Java's: multi or red
	prefix  string   // of the members' names
	members []string // as Java names them
	locks   []latchkey.Locker
	l       latchkey.Locker
	th      *thread
}

func (m *multi) start(operation string, args ...any) *call {
	return m.th.start(operation, append([]any{m.kind, strings.Join(m.members, ",")}, args...)...)
}

func (m *multi) do(t *testing.T, operation string, args ...any) string {
	t.Helper()
	return m.start(operation, args...).wait(t, patience)
}

// newMulti is a multi-lock over three members of one Redis. Java takes them in
// another order than Go has them.
func newMulti(t *testing.T, r *rig) *multi {
	t.Helper()
	m := &multi{rig: r, kind: "multi", prefix: r.name(t), th: r.j.thread()}
	c := r.client(t)
	for _, member := range []string{"c", "a", "b"} {
		m.members = append(m.members, m.prefix+member)
		m.locks = append([]latchkey.Locker{rlock.New(c, m.prefix+member)}, m.locks...)
	}
	m.l = multilock.New(m.locks...)
	return m
}

// newRed is a lock over members on three servers.
func newRed(t *testing.T, r *rig) *multi {
	t.Helper()
	m := &multi{rig: r, kind: "red", prefix: r.name(t), th: r.j.thread()}
	for range 3 {
		one := &rig{version: r.version, jvm: r.jvm, nodes: []*redistest.Server{redistest.Start(t)}}
		m.members = append(m.members, r.jvm.open(t, one.address()).name+"!"+m.prefix)
		m.locks = append(m.locks, rlock.New(one.client(t), m.prefix))
	}
	m.l = multilock.NewRed(m.locks...)
	return m
}

func testMulti(t *testing.T, r *rig) {
	t.Run("multi-lock", func(t *testing.T) {
		t.Parallel()
		m := newMulti(t, r)
		multiExclusion(t, m)
		multiHeldMember(t, m)
	})
	if len(r.nodes) > 1 {
		return // a Redlock is over single servers
	}
	t.Run("RedLock", func(t *testing.T) {
		t.Parallel()
		m := newRed(t, r)
		multiExclusion(t, m)
		redMinority(t, m)
		c := m.start("lock")
		c.wait(t, patience)
		g := lockAsync(soon(t), m.l)
		time.Sleep(500 * time.Millisecond)
		g.pending(t)
		m.do(t, "unlock")
		h := g.wait(t, 2*time.Second) // both sides try again after a while
		c = m.start("lock")
		time.Sleep(500 * time.Millisecond)
		c.pending(t)
		require.NoError(t, h.Unlock(soon(t)))
		c.wait(t, 5*time.Second)
		m.do(t, "unlock")
	})
}

// multiExclusion: whoever has all keeps the other one out, and from each member.
func multiExclusion(t *testing.T, m *multi) {
	require.Equal(t, "true", m.do(t, "trylock"))
	_, err := m.l.TryLock(soon(t))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	for _, l := range m.locks {
		_, err := l.TryLock(soon(t))
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	}
	m.do(t, "unlock")

	h, err := m.l.TryLock(soon(t))
	require.NoError(t, err)
	require.Equal(t, "false", m.do(t, "trylock"))
	require.Equal(t, "false", m.do(t, "trylock", 300))
	require.NoError(t, h.Unlock(soon(t)))
	require.Equal(t, "true", m.do(t, "trylock", 2000, 10000))
	m.do(t, "unlock")
}

// multiHeldMember: one member that is held by somebody keeps all out, and what
// was taken on the way is given back.
func multiHeldMember(t *testing.T, m *multi) {
	h, err := m.locks[1].TryLock(soon(t))
	require.NoError(t, err)
	require.Equal(t, "false", m.do(t, "trylock"))
	_, err = m.l.TryLock(soon(t))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	for _, i := range []int{0, 2} {
		redistest.Until(t, "a free member", func() bool {
			h, err := m.locks[i].TryLock(soon(t))
			if err == nil {
				err = h.Unlock(soon(t))
			}
			return err == nil
		})
	}
	c, g := m.start("lock"), lockAsync(soon(t), m.l)
	time.Sleep(100 * time.Millisecond)
	c.pending(t)
	g.pending(t)
	require.NoError(t, h.Unlock(soon(t)))
	// Either may be the first; the other one waits for it.
	select {
	case <-c.done:
		c.wait(t, patience)
		m.do(t, "unlock")
		require.NoError(t, g.wait(t, patience).Unlock(soon(t)))
	case <-g.done:
		require.NoError(t, g.wait(t, patience).Unlock(soon(t)))
		c.wait(t, patience)
		m.do(t, "unlock")
	case <-time.After(patience):
		require.Fail(t, "nobody gets the free members")
	}
}

// redMinority: one held member of three keeps nobody out; two do.
func redMinority(t *testing.T, m *multi) {
	one, err := m.locks[0].TryLock(soon(t))
	require.NoError(t, err)
	require.Equal(t, "true", m.do(t, "trylock", 3000, 10000))
	_, err = m.l.TryLock(soon(t))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	m.do(t, "unlock")
	h, err := m.l.Lock(soon(t))
	require.NoError(t, err)
	require.NoError(t, h.Unlock(soon(t)))

	two, err := m.locks[1].TryLock(soon(t), latchkey.Wait(time.Second))
	require.NoError(t, err)
	require.Equal(t, "false", m.do(t, "trylock", 300))
	_, err = m.l.TryLock(soon(t))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.NoError(t, one.Unlock(soon(t)))
	require.NoError(t, two.Unlock(soon(t)))
}

// testGroup: sets of values of one group exclude each other where they meet. Java
// must encode the values as they are.
func testGroup(t *testing.T, r *rig) {
	if !r.version.since(hasGroupLock) {
		return
	}
	t.Run("group lock", func(t *testing.T) {
		t.Parallel()
		name := r.name(t)
		c, j := r.fastClient(t), r.jvm.open(t, r.address(), "strings=true", fastOption)
		th := j.thread()
		group := func(values ...string) *multilock.Group { return multilock.NewGroup(c, name, values...) }
		java := func(operation, values string, args ...any) string {
			t.Helper()
			return th.do(t, operation, append([]any{"group", name + ":" + values}, args...)...)
		}
		refused := func(values ...string) {
			t.Helper()
			_, err := group(values...).TryLock(soon(t))
			require.ErrorIs(t, err, latchkey.ErrNotAcquired, "%v", values)
		}

		java("lock", "a,b")
		refused("a")
		refused("b", "c")
		locked, err := group("b").IsLocked(soon(t))
		require.NoError(t, err)
		require.True(t, locked)
		other, err := group("c", "d").TryLock(soon(t))
		require.NoError(t, err, "other values of the group")
		require.Equal(t, "false", java("trylock", "d,e"))
		require.Equal(t, "true", java("trylock", "e,f"))
		java("unlock", "e,f")
		for end := time.Now().Add(2 * fastWatchdog); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			refused("a") // Java renews
			require.Equal(t, "false", java("trylock", "c"), "Go renews")
		}
		require.NoError(t, other.Context().Err())
		java("unlock", "a,b")
		require.NoError(t, other.Unlock(soon(t)))
		require.False(t, r.exists(t, name))

		// Re-entry.
		java("lock", "a,b")
		java("lock", "a,b")
		java("unlock", "a,b")
		refused("a")
		java("unlock", "a,b")
		ctx := latchkey.WithHolder(soon(t))
		g := group("a", "b")
		for range 2 {
			_, err = g.Lock(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, g.Unlock(ctx))
		require.Equal(t, "false", java("trylock", "b"))
		require.NoError(t, g.Unlock(ctx))
		require.Equal(t, "true", java("trylock", "b"))
		java("unlock", "b")

		// Force.
		h, err := group("a", "b").Lock(soon(t))
		require.NoError(t, err)
		java("forceunlock", "a,b") // says true only when it has freed exactly one value
		require.False(t, r.exists(t, name))
		select {
		case <-h.Lost():
		case <-time.After(fastWatchdog):
			require.Fail(t, "Go's Hold does not hear that Java has taken it")
		}
		require.ErrorIs(t, h.Unlock(soon(t)), latchkey.ErrLeaseLost)
		java("lock", "a,b")
		forced, err := group("a", "b").ForceUnlock(soon(t))
		require.NoError(t, err)
		require.True(t, forced)
		th.fails(t, "IllegalMonitorStateException", "unlock", "group", name+":a,b")

		// A dead holder.
		dead, kill := r.mortal(t)
		_, err = multilock.NewGroup(dead, name, "a").Lock(soon(t))
		require.NoError(t, err)
		kill()
		th.start("lock", "group", name+":a").wait(t, fastWatchdog+2*time.Second)
		java("unlock", "a")
		locked, err = group("a").IsLocked(soon(t))
		require.NoError(t, err)
		require.False(t, locked)
		// What Java leaves of the dead ends with the key.
		redistest.Until(t, "the end of the key", func() bool { return !r.exists(t, name) })
	})
}
