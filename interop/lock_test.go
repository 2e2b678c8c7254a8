package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A goLock is what the locks of rlock, fairlock and rwlock have in common.
type goLock interface {
	latchkey.Locker
	Unlock(ctx context.Context) error
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	TTL(ctx context.Context) (time.Duration, error)
}

// A kind is a lock for one holder that both sides have.
type kind struct {
	java      string // what Locks.java calls it
	since     version
	open      func(c *latchkey.Client, name string) goLock
	reentrant bool
	silent    bool   // without pub/sub
	suffix    string // of a holder in Redis
	keep      string // what stays in Redis
}

func kinds(v version) []kind {
	all := []kind{
		{java: "rlock", reentrant: true, open: func(c *latchkey.Client, name string) goLock { return rlock.New(c, name) }},
		{java: "spin", reentrant: true, silent: true, open: func(c *latchkey.Client, name string) goLock {
			return rlock.New(c, name, rlock.Spin(rlock.Backoff{}))
		}},
		{java: "fenced", reentrant: true, since: hasFenced, keep: "redisson_lock_token:{%s}", open: func(c *latchkey.Client, name string) goLock {
			return rlock.New(c, name, rlock.Fenced())
		}},
		{java: "fair", reentrant: true, open: func(c *latchkey.Client, name string) goLock { return fairlock.New(c, name) }},
		{java: "write", reentrant: true, suffix: ":write", open: func(c *latchkey.Client, name string) goLock {
			return rwlock.New(c, name).WriteLock()
		}},
		{java: "nonreentrant", since: hasNonReentrant, open: func(c *latchkey.Client, name string) goLock {
			return rlock.New(c, name, rlock.NonReentrant())
		}},
		{java: "nonreentrantfair", since: hasNonReentrant, open: func(c *latchkey.Client, name string) goLock {
			return fairlock.New(c, name, fairlock.NonReentrant())
		}},
	}
	var has []kind
	for _, k := range all {
		if v.since(k.since) {
			has = append(has, k)
		}
	}
	return has
}

// A pair is one lock, seen from both sides.
type pair struct {
	*rig
	kind
	lock string // its name
	c    *latchkey.Client
	l    goLock
	th   *thread
}

func (r *rig) pair(t *testing.T, k kind, c *latchkey.Client, j *redisson) *pair {
	t.Helper()
	name := r.name(t, k.keep)
	return &pair{r, k, name, c, k.open(c, name), j.thread()}
}

// start runs an operation of Java's on the lock.
func (p *pair) start(operation string, args ...any) *call {
	return p.th.start(operation, append([]any{p.java, p.lock}, args...)...)
}

func (p *pair) do(t *testing.T, operation string, args ...any) string {
	t.Helper()
	return p.start(operation, args...).wait(t, patience)
}

// free fails the test unless nobody has the lock, as both sides see it.
func (p *pair) free(t *testing.T) {
	t.Helper()
	locked, err := p.l.IsLocked(soon(t))
	require.NoError(t, err)
	require.False(t, locked, "Go's IsLocked")
	require.Equal(t, "false", p.do(t, "islocked"), "Java's isLocked")
	require.False(t, p.exists(t, p.lock), "the key")
}

// goIsRefused fails the test when Go can have the lock.
func (p *pair) goIsRefused(t *testing.T) {
	t.Helper()
	_, err := p.l.TryLock(soon(t))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	_, err = p.l.TryLock(soon(t), latchkey.Wait(20*time.Millisecond))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
}

// javaIsRefused fails the test when Java can.
func (p *pair) javaIsRefused(t *testing.T) {
	t.Helper()
	require.Equal(t, "false", p.do(t, "trylock"))
	require.Equal(t, "false", p.do(t, "trylock", 200))
}

// locks are the tests that every kind of exclusive lock goes through.
var locks = []struct {
	what string
	test func(t *testing.T, r *rig, k kind)
}{
	{"exclusion", lockExclusion},
	{"reentry", lockReentry},
	{"lease", lockLease},
	{"force", lockForce},
	{"watchdogs", lockWatchdogs},
	{"death", lockDeath},
}

func testLocks(t *testing.T, r *rig) {
	for _, k := range kinds(r.version) {
		for _, of := range locks {
			t.Run(k.java+" "+of.what, func(t *testing.T) {
				t.Parallel()
				of.test(t, r, k)
			})
		}
	}
}

func lockExclusion(t *testing.T, r *rig, k kind) {
	p := r.pair(t, k, r.client(t), r.j)
	p.free(t)

	require.Equal(t, "true", p.do(t, "trylock"))
	require.Equal(t, "true", p.do(t, "isheld"))
	p.goIsRefused(t)
	locked, err := p.l.IsLocked(soon(t))
	require.NoError(t, err)
	require.True(t, locked)
	left, err := p.l.TTL(soon(t))
	require.NoError(t, err)
	require.InDelta(t, 30, left.Seconds(), 10)
	info, err := p.c.Info(soon(t), p.lock)
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	require.Equal(t, p.th.holder(t)+p.suffix, info.Holders[0].ID)
	require.Equal(t, 1, info.Holders[0].Count)
	require.ErrorIs(t, p.l.Unlock(latchkey.WithHolder(soon(t))), latchkey.ErrNotHeld, "unlock of Java's lock")
	p.do(t, "unlock")
	p.free(t)

	h, err := p.l.TryLock(soon(t))
	require.NoError(t, err)
	p.javaIsRefused(t)
	require.Equal(t, "true", p.do(t, "islocked"))
	require.Equal(t, "false", p.do(t, "isheld"))
	require.Equal(t, "0", p.do(t, "holdcount"))
	require.InDelta(t, 30000, p.th.number(t, "ttl", p.java, p.lock), 10000)
	_, err = p.start("unlock").result(t, patience)
	require.ErrorContains(t, err, "IllegalMonitorStateException", "Java's unlock of Go's lock")
	require.NoError(t, h.Unlock(soon(t)))
	p.free(t)
}

func lockReentry(t *testing.T, r *rig, k kind) {
	p := r.pair(t, k, r.client(t), r.j)
	if !k.reentrant {
		p.do(t, "lock")
		_, err := p.start("lock").result(t, patience)
		require.ErrorContains(t, err, "IllegalMonitorStateException", "a second lock by the same thread")
		p.do(t, "unlock")
		p.free(t)
		return
	}
	for range 3 {
		p.do(t, "lock")
	}
	require.Equal(t, "3", p.do(t, "holdcount"))
	info, err := p.c.Info(soon(t), p.lock)
	require.NoError(t, err)
	require.Equal(t, 3, info.Holders[0].Count)
	for range 3 {
		p.goIsRefused(t)
		p.do(t, "unlock")
	}
	p.free(t)

	ctx := latchkey.WithHolder(soon(t))
	for range 3 {
		_, err := p.l.Lock(ctx)
		require.NoError(t, err)
	}
	n, err := p.l.HoldCount(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for range 3 {
		p.javaIsRefused(t)
		require.NoError(t, p.l.Unlock(ctx))
	}
	p.free(t)
}

// lockLease: a fixed lease is not renewed, and whoever waits is in when it ends,
// although nobody says so.
func lockLease(t *testing.T, r *rig, k kind) {
	const lease = 700 * time.Millisecond
	p := r.pair(t, k, r.client(t), r.j)
	in := func(took time.Duration, slack time.Duration) {
		t.Helper()
		require.Greater(t, took, lease-20*time.Millisecond)
		require.Less(t, took, lease+slack)
	}

	start := time.Now()
	require.Equal(t, "true", p.do(t, "trylock", 0, lease.Milliseconds()))
	g := lockAsync(soon(t), p.l, latchkey.Lease(lease))
	g.wait(t, patience)
	in(g.at.Sub(start), time.Second)

	if k.java == "fair" && !r.version.since(hasFairSleep) { // see fairStuckJava
		redistest.Until(t, "the end of Go's lease", func() bool { return !r.exists(t, p.lock) })
		return
	}
	start = time.Now()
	c := p.start("lock", lease.Milliseconds())
	c.wait(t, patience)
	// From here, Go's lease began a little earlier.
	require.Less(t, c.at.Sub(start), lease+time.Second)
	require.ErrorIs(t, g.hold.Unlock(soon(t)), latchkey.ErrLeaseLost)
	select {
	case <-g.hold.Lost():
	default:
		require.Fail(t, "Java has it, and Go's Hold was not lost")
	}
	redistest.Until(t, "the end of Java's lease", func() bool { return !r.exists(t, p.lock) })
}

func lockForce(t *testing.T, r *rig, k kind) {
	p := r.pair(t, k, r.fastClient(t), r.fast)

	h, err := p.l.Lock(soon(t))
	require.NoError(t, err)
	require.Equal(t, "true", p.do(t, "forceunlock"))
	require.Equal(t, "false", p.do(t, "forceunlock"), "again")
	p.free(t)
	select {
	case <-h.Lost():
	case <-time.After(fastWatchdog):
		require.Fail(t, "Go's Hold does not hear that Java has taken it")
	}
	require.ErrorIs(t, h.Unlock(soon(t)), latchkey.ErrLeaseLost)

	p.do(t, "lock")
	g := lockAsync(soon(t), p.l)
	if !k.silent {
		r.subscribed(t, p.lock)
	}
	forced, err := p.l.ForceUnlock(soon(t))
	require.NoError(t, err)
	require.True(t, forced)
	g.wait(t, patience)
	_, err = p.start("unlock").result(t, patience)
	require.ErrorContains(t, err, "IllegalMonitorStateException", "Java's unlock of what Go has taken")
	require.NoError(t, g.hold.Unlock(soon(t)))
	p.free(t)
}

// lockWatchdogs: both sides renew their locks side by side, for several leases,
// while the other one waits.
func lockWatchdogs(t *testing.T, r *rig, k kind) {
	mine, theirs := r.pair(t, k, r.fastClient(t), r.fast), r.pair(t, k, r.fastClient(t), r.fast)
	h, err := mine.l.Lock(soon(t))
	require.NoError(t, err)
	theirs.do(t, "lock")
	c := mine.start("lock")
	g := lockAsync(soon(t), theirs.l)
	for end := time.Now().Add(2 * fastWatchdog); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		require.Positive(t, mine.th.client.thread().number(t, "ttl", k.java, mine.lock), "lease of Go's lock")
		left, err := theirs.l.TTL(soon(t))
		require.NoError(t, err)
		require.Positive(t, left, "lease of Java's lock")
	}
	c.pending(t)
	g.pending(t)
	require.NoError(t, h.Unlock(soon(t)))
	c.wait(t, patience)
	theirs.do(t, "unlock")
	g.wait(t, patience)
	require.NoError(t, g.hold.Unlock(soon(t)))
	mine.do(t, "unlock")
	mine.free(t)
	theirs.free(t)
}

// lockDeath: when a holder dies, the other side gets the lock at the end of the
// lease.
func lockDeath(t *testing.T, r *rig, k kind) {
	c, kill := r.mortal(t)
	p := r.pair(t, k, c, r.fast)
	_, err := p.l.Lock(soon(t))
	require.NoError(t, err)
	kill()
	if k.java != "fair" || r.version.since(hasFairSleep) { // before, see fairStuckJava
		p.start("lock").wait(t, fastWatchdog+2*time.Second)
		p.do(t, "unlock")
	}
	redistest.Until(t, "the end of the lease", func() bool { return !r.exists(t, p.lock) })

	if k.java != "rlock" && k.java != "fair" {
		return // one JVM for each kind would be many
	}
	doomed := startJVM(t, r.version)
	dead := doomed.open(t, r.address(), fastOption).thread()
	dead.do(t, "lock", k.java, p.lock)
	doomed.kill()
	l := k.open(r.client(t), p.lock)
	h := lockAsync(soon(t), l).wait(t, fastWatchdog+2*time.Second)
	require.NoError(t, h.Unlock(soon(t)))
	require.False(t, r.exists(t, p.lock))
}
