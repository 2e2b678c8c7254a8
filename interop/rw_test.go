package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rwlock"
)

// hasOwnRenewal is the release in which a Java reader renews its own holds only,
// and no longer those of all others.
const hasOwnRenewal version = "4.4.0"

// An rwPair is one read-write lock, seen from both sides.
type rwPair struct {
	*rig
	name string
	rw   *rwlock.RWLock
	th   *thread
}

func (r *rig) rwPair(t *testing.T, c *latchkey.Client, j *redisson) *rwPair {
	t.Helper()
	name := r.name(t)
	return &rwPair{r, name, rwlock.New(c, name), j.thread()}
}

func (p *rwPair) do(t *testing.T, operation, half string, args ...any) string {
	t.Helper()
	return p.th.do(t, operation, append([]any{half, p.name}, args...)...)
}

// admits fails the test unless a stranger on either side can take what is said.
func (p *rwPair) admits(t *testing.T, read, write bool) {
	t.Helper()
	for half, can := range map[string]bool{"read": read, "write": write} {
		l, th := p.rw.ReadLock(), p.j.thread()
		if half == "write" {
			l = p.rw.WriteLock()
		}
		h, err := l.TryLock(soon(t))
		if can {
			require.NoError(t, err, half)
			require.NoError(t, h.Unlock(soon(t)))
			require.True(t, th.yes(t, "trylock", half, p.name), half)
			th.do(t, "unlock", half, p.name)
		} else {
			require.ErrorIs(t, err, latchkey.ErrNotAcquired, half)
			require.False(t, th.yes(t, "trylock", half, p.name), half)
		}
	}
}

func testReadWrite(t *testing.T, r *rig) {
	for what, f := range map[string]func(*testing.T, *rig){
		"readers":        rwReaders,
		"writers":        rwWriters,
		"Go downgrade":   rwGoDowngrade,
		"Java downgrade": rwJavaDowngrade,
		"upgrade":        rwUpgrade,
		"watchdogs":      rwWatchdogs,
		"dead Go":        rwDeadGo,
		"dead Java":      rwDeadJava,
		"force":          rwForce,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f(t, r)
		})
	}
}

func rwReaders(t *testing.T, r *rig) {
	p := r.rwPair(t, r.client(t), r.j)
	ctx := latchkey.WithHolder(soon(t))
	for range 2 {
		p.do(t, "lock", "read")
		_, err := p.rw.ReadLock().Lock(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, "2", p.do(t, "holdcount", "read"))
	n, err := p.rw.ReadLock().HoldCount(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, "true", p.do(t, "islocked", "read"))
	require.Equal(t, "false", p.do(t, "islocked", "write"))
	p.admits(t, true, false)
	p.do(t, "unlock", "read")
	require.NoError(t, p.rw.ReadLock().Unlock(ctx))
	p.admits(t, true, false)
	p.do(t, "unlock", "read")
	p.admits(t, true, false)
	require.NoError(t, p.rw.ReadLock().Unlock(ctx))
	p.admits(t, true, true)

	// The other way round: the Java reader is the last one.
	p.do(t, "lock", "read")
	h, err := p.rw.ReadLock().Lock(soon(t))
	require.NoError(t, err)
	require.NoError(t, h.Unlock(soon(t)))
	p.admits(t, true, false)
	p.do(t, "unlock", "read")
	p.admits(t, true, true)
}

func rwWriters(t *testing.T, r *rig) {
	p := r.rwPair(t, r.client(t), r.j)
	p.do(t, "lock", "write")
	p.admits(t, false, false)
	locked, err := p.rw.WriteLock().IsLocked(soon(t))
	require.NoError(t, err)
	require.True(t, locked)
	p.do(t, "unlock", "write")
	p.admits(t, true, true)

	h, err := p.rw.WriteLock().Lock(soon(t))
	require.NoError(t, err)
	p.admits(t, false, false)
	require.Equal(t, "true", p.do(t, "islocked", "write"))
	require.Equal(t, "false", p.do(t, "islocked", "read"))
	require.NoError(t, h.Unlock(soon(t)))
	p.admits(t, true, true)
}

// rwGoDowngrade: Go says when a downgrade lets readers in, so a Java reader that
// waits for the writer need not wait for its lease.
func rwGoDowngrade(t *testing.T, r *rig) {
	p := r.rwPair(t, r.client(t), r.j)
	w, err := p.rw.WriteLock().Lock(soon(t))
	require.NoError(t, err)
	c := p.th.start("lock", "read", p.name)
	r.subscribed(t, p.name)
	time.Sleep(30 * time.Millisecond)
	c.pending(t)
	h, err := p.rw.Downgrade(soon(t), w)
	require.NoError(t, err)
	c.wait(t, 2*time.Second)
	p.admits(t, true, false)
	require.NoError(t, h.Unlock(soon(t)))
	p.admits(t, true, false)
	p.do(t, "unlock", "read")
	p.admits(t, true, true)
}

// rwJavaDowngrade: Java says nothing when a downgrade lets readers in. Go's
// recheck finds it.
func rwJavaDowngrade(t *testing.T, r *rig) {
	p := r.rwPair(t, r.client(t, latchkey.WithRecheck(300*time.Millisecond)), r.j)
	p.do(t, "lock", "write")
	p.do(t, "lock", "read")
	g := lockAsync(soon(t), p.rw.ReadLock())
	r.subscribed(t, p.name)
	g.pending(t)
	p.do(t, "unlock", "write")
	h := g.wait(t, 2*time.Second)
	p.admits(t, true, false)
	p.do(t, "unlock", "read")
	p.admits(t, true, false)
	require.NoError(t, h.Unlock(soon(t)))
	p.admits(t, true, true)
}

func rwUpgrade(t *testing.T, r *rig) {
	p := r.rwPair(t, r.client(t), r.j)
	ctx := latchkey.WithHolder(soon(t))
	_, err := p.rw.ReadLock().Lock(ctx)
	require.NoError(t, err)
	p.do(t, "lock", "read")
	_, err = p.rw.WriteLock().TryLock(ctx)
	require.ErrorIs(t, err, latchkey.ErrUpgrade)
	require.Equal(t, "false", p.do(t, "trylock", "write", 200))
	require.NoError(t, p.rw.ReadLock().Unlock(ctx))
	require.Equal(t, "false", p.do(t, "trylock", "write", 200))
	p.do(t, "unlock", "read")
	require.Equal(t, "true", p.do(t, "trylock", "write", 200))
	p.do(t, "unlock", "write")
	p.admits(t, true, true)
}

// rwWatchdogs: readers of both sides renew side by side, each its own holds.
func rwWatchdogs(t *testing.T, r *rig) {
	times, j := 2, r.fast
	if r.version.since("3.44.0") && !r.version.since("4.0.0") {
		// These renew one read lock of a client, and of that the first hold of a
		// thread only. The others live for one lease.
		times, j = 1, r.jvm.open(t, r.address(), fastOption)
	}
	p := r.rwPair(t, r.fastClient(t), j)
	for range times {
		p.do(t, "lock", "read")
	}
	h, err := p.rw.ReadLock().Lock(soon(t))
	require.NoError(t, err)
	for end := time.Now().Add(2 * fastWatchdog); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		p.admits(t, true, false)
	}
	for range times {
		p.do(t, "unlock", "read")
	}
	for end := time.Now().Add(fastWatchdog); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		p.admits(t, true, false)
	}
	require.NoError(t, h.Unlock(soon(t)))
	p.admits(t, true, true)
}

// rwDeadGo: a dead Go reader is gone after its lease, although Java readers go on;
// but before 4.4 these keep it alive for as long as they hold themselves.
func rwDeadGo(t *testing.T, r *rig) {
	c, kill := r.mortal(t)
	p := r.rwPair(t, c, r.fast)
	_, err := p.rw.ReadLock().Lock(soon(t))
	require.NoError(t, err)
	p.do(t, "lock", "read")
	kill()
	time.Sleep(2 * fastWatchdog)
	p.do(t, "unlock", "read")
	p.rw = rwlock.New(r.client(t), p.name)
	if r.version.since(hasOwnRenewal) {
		require.False(t, r.exists(t, p.name), "the dead reader ended with its lease")
	}
	h := lockAsync(soon(t), p.rw.WriteLock()).wait(t, fastWatchdog+time.Second)
	require.NoError(t, h.Unlock(soon(t)))
	p.admits(t, true, true)
}

// rwDeadJava: a dead Java reader is gone after its lease, although a Go reader
// goes on.
func rwDeadJava(t *testing.T, r *rig) {
	p := r.rwPair(t, r.fastClient(t), r.fast)
	doomed := startJVM(t, r.version)
	doomed.open(t, r.address(), fastOption).thread().do(t, "lock", "read", p.name)
	h, err := p.rw.ReadLock().Lock(soon(t))
	require.NoError(t, err)
	doomed.kill()
	time.Sleep(2 * fastWatchdog)
	require.NoError(t, h.Unlock(soon(t)))
	require.False(t, r.exists(t, p.name), "the dead reader ended with its lease")
	p.do(t, "lock", "write")
	p.do(t, "unlock", "write")
	p.admits(t, true, true)
}

// rwForce: each side frees the other's half, and only that.
func rwForce(t *testing.T, r *rig) {
	p := r.rwPair(t, r.fastClient(t), r.fast)
	w, err := p.rw.WriteLock().Lock(soon(t))
	require.NoError(t, err)
	require.Equal(t, "false", p.do(t, "forceunlock", "read"))
	require.Equal(t, "true", p.do(t, "forceunlock", "write"))
	require.ErrorIs(t, w.Unlock(soon(t)), latchkey.ErrLeaseLost)
	p.admits(t, true, true)

	p.do(t, "lock", "read")
	forced, err := p.rw.WriteLock().ForceUnlock(soon(t))
	require.NoError(t, err)
	require.False(t, forced)
	forced, err = p.rw.ReadLock().ForceUnlock(soon(t))
	require.NoError(t, err)
	require.True(t, forced)
	_, err = p.th.start("unlock", "read", p.name).result(t, patience)
	if r.version.since("3.44.0") { // before, a free lock was no error
		require.ErrorContains(t, err, "IllegalMonitorStateException")
	}
	p.admits(t, true, true)
}
