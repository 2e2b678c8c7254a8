package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/permitsemaphore"
)

// A permitPair is one semaphore with leases, seen from both sides.
type permitPair struct {
	*rig
	s  *permitsemaphore.Semaphore
	th *thread
}

func (r *rig) permitPair(t *testing.T, permits int) *permitPair {
	t.Helper()
	p := &permitPair{r, permitsemaphore.New(r.fastClient(t), r.name(t)), r.j.thread()}
	set, err := p.s.TrySetPermits(soon(t), permits)
	require.NoError(t, err)
	require.True(t, set)
	require.Equal(t, "false", p.do(t, "tryset", 1))
	return p
}

func (p *permitPair) start(operation string, args ...any) *call {
	return p.th.start("permit."+operation, append([]any{p.s.Name()}, args...)...)
}

func (p *permitPair) do(t *testing.T, operation string, args ...any) string {
	t.Helper()
	return p.start(operation, args...).wait(t, patience)
}

// counts fails the test unless both sides see so many available and so many out.
func (p *permitPair) counts(t *testing.T, available, out int) {
	t.Helper()
	n, err := p.s.AvailablePermits(soon(t))
	require.NoError(t, err)
	require.Equal(t, available, n, "Go's AvailablePermits")
	require.EqualValues(t, available, p.th.number(t, "permit.available", p.s.Name()), "Java's availablePermits")
	n, err = p.s.AcquiredPermits(soon(t))
	require.NoError(t, err)
	require.Equal(t, out, n, "Go's AcquiredPermits")
	if p.version.since(hasPermitCounts) {
		require.EqualValues(t, out, p.th.number(t, "permit.acquired", p.s.Name()), "Java's acquiredPermits")
		require.EqualValues(t, available+out, p.th.number(t, "permit.permits", p.s.Name()), "Java's getPermits")
	}
}

func (p *permitPair) delete(t *testing.T) {
	t.Helper()
	require.Equal(t, "true", p.do(t, "delete"))
}

func testPermits(t *testing.T, r *rig) {
	for what, f := range map[string]func(*testing.T, *rig){
		"permit ids":    permitIDs,
		"permits lapse": permitsLapse,
		"permit leases": permitLeases,
		"permit totals": permitTotals,
		"many permits":  permitsMany,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f(t, r)
		})
	}
}

// permitIDs: an id is good on both sides.
func permitIDs(t *testing.T, r *rig) {
	p := r.permitPair(t, 2)
	javas := p.do(t, "acquire")
	gos, err := p.s.Acquire(soon(t))
	require.NoError(t, err)
	p.counts(t, 0, 2)
	_, err = p.s.TryAcquire(soon(t))
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	require.Equal(t, "null", p.do(t, "tryacquire"))
	require.Equal(t, "null", p.do(t, "tryacquire", 200, 1000))

	require.NoError(t, p.s.Release(soon(t), javas), "Java's id, released by Go")
	p.counts(t, 1, 1)
	_, err = p.start("release", javas).result(t, patience)
	require.ErrorContains(t, err, javas, "Java's id, again")
	require.Equal(t, "true", p.do(t, "tryrelease", gos.ID()), "Go's id, released by Java")
	p.counts(t, 2, 0)
	select {
	case <-gos.Lost():
	case <-time.After(fastWatchdog):
		require.Fail(t, "Go's Permit does not hear that Java has released it")
	}
	require.ErrorIs(t, gos.Release(soon(t)), latchkey.ErrLeaseLost)
	require.Equal(t, "false", p.do(t, "tryrelease", gos.ID()))
	p.counts(t, 2, 0)
	p.delete(t)
}

// permitsLapse: a permit that was not released comes back at the end of its lease,
// and a waiter of the other side gets it then, although nobody says so.
func permitsLapse(t *testing.T, r *rig) {
	const lease = 700 * time.Millisecond
	p := r.permitPair(t, 1)
	start := time.Now()
	p.do(t, "acquire", lease.Milliseconds())
	gos, err := p.s.Acquire(soon(t), latchkey.Lease(lease))
	require.NoError(t, err)
	took := time.Since(start)
	require.Greater(t, took, lease-20*time.Millisecond)
	require.Less(t, took, lease+time.Second)
	id := p.start("acquire").wait(t, lease+2*time.Second)
	require.Error(t, gos.Release(soon(t)))
	p.counts(t, 0, 1)
	p.do(t, "release", id)
	p.counts(t, 1, 0)

	// Of a Go client that has died, too.
	c, kill := r.mortal(t)
	_, err = permitsemaphore.New(c, p.s.Name()).Acquire(soon(t))
	require.NoError(t, err)
	kill()
	id = p.start("acquire").wait(t, fastWatchdog+2*time.Second)
	p.do(t, "release", id)
	p.counts(t, 1, 0)

	// But not of one that lives.
	gos, err = p.s.Acquire(soon(t))
	require.NoError(t, err)
	require.Equal(t, "null", p.do(t, "tryacquire", 2*fastWatchdog.Milliseconds(), 1000))
	require.NoError(t, gos.Release(soon(t)))
	p.counts(t, 1, 0)
	p.delete(t)
}

func permitLeases(t *testing.T, r *rig) {
	p := r.permitPair(t, 2)
	javas := p.do(t, "acquire", 20000)
	gos, err := p.s.Acquire(soon(t), latchkey.Lease(20*time.Second))
	require.NoError(t, err)
	for _, id := range []string{javas, gos.ID()} {
		left, err := p.s.LeaseTime(soon(t), id)
		require.NoError(t, err)
		require.InDelta(t, 20, left.Seconds(), 10)
	}
	updated, err := p.s.UpdateLease(soon(t), javas, time.Minute)
	require.NoError(t, err)
	require.True(t, updated)
	require.Equal(t, "true", p.do(t, "updatelease", gos.ID(), 60000))
	require.Equal(t, "false", p.do(t, "updatelease", strings.Repeat("0", 32), 60000))
	if r.version.since(hasLeaseTime) {
		require.InDelta(t, 60000, p.th.number(t, "permit.leasetime", p.s.Name(), javas), 10000)
		require.InDelta(t, 60000, p.th.number(t, "permit.leasetime", p.s.Name(), gos.ID()), 10000)
	}
	require.NoError(t, p.s.Release(soon(t), javas, gos.ID()))

	// Permits without an end.
	javas = p.do(t, "acquire")
	left, err := p.s.LeaseTime(soon(t), javas)
	require.NoError(t, err)
	require.Negative(t, left)
	gos, err = p.s.Acquire(soon(t), permitsemaphore.Permanent())
	require.NoError(t, err)
	if r.version.since(hasLeaseTime) {
		require.EqualValues(t, -1, p.th.number(t, "permit.leasetime", p.s.Name(), gos.ID()))
	}
	p.do(t, "release", gos.ID())
	p.do(t, "release", javas)
	p.counts(t, 2, 0)
	p.delete(t)
}

func permitTotals(t *testing.T, r *rig) {
	p := r.permitPair(t, 2)
	id := p.do(t, "acquire")
	require.NoError(t, p.s.AddPermits(soon(t), 3))
	p.counts(t, 4, 1)
	p.do(t, "add", -2)
	p.counts(t, 2, 1)
	require.NoError(t, p.s.SetPermits(soon(t), 6))
	p.counts(t, 5, 1)
	if r.version.since(hasPermitCounts) {
		p.do(t, "set", 4)
		p.counts(t, 3, 1)
	}
	require.NoError(t, p.s.Release(soon(t), id))

	// Permits that were added are announced.
	n, err := p.s.AvailablePermits(soon(t))
	require.NoError(t, err)
	permits, err := p.s.AcquireN(soon(t), n)
	require.NoError(t, err)
	c := p.start("acquire")
	p.subscribed(t, p.s.Name())
	time.Sleep(30 * time.Millisecond)
	require.NoError(t, p.s.AddPermits(soon(t), 1))
	ids := []string{c.wait(t, 2*time.Second)}
	got := p.s.AcquireAsync(soon(t))
	p.subscribed(t, p.s.Name())
	p.do(t, "add", 1)
	select {
	case one := <-got:
		require.NoError(t, one.Err)
		ids = append(ids, one.Value.ID())
	case <-time.After(2 * time.Second):
		require.Fail(t, "Java's addPermits does not wake Go")
	}
	for _, one := range permits {
		ids = append(ids, one.ID())
	}
	require.NoError(t, p.s.Release(soon(t), ids...))
	p.counts(t, n+2, 0)
	p.delete(t)
}

// permitsMany: several at a time are taken and released all or none.
func permitsMany(t *testing.T, r *rig) {
	if !r.version.since(hasManyPermits) {
		return
	}
	p := r.permitPair(t, 5)
	javas := p.do(t, "acquiremany", 3)
	_, err := p.s.TryAcquireN(soon(t), 3)
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	gos, err := p.s.AcquireN(soon(t), 2)
	require.NoError(t, err)
	p.counts(t, 0, 5)
	waiting := p.s.AcquireNAsync(soon(t), 2)
	p.subscribed(t, p.s.Name())
	p.do(t, "releaseall", gos[0].ID()+","+gos[1].ID())
	select {
	case got := <-waiting:
		require.NoError(t, got.Err)
		gos = got.Value
	case <-time.After(2 * time.Second):
		require.Fail(t, "Java's release of two permits does not wake Go")
	}
	c := p.start("acquiremany", 3)
	p.subscribed(t, p.s.Name())
	time.Sleep(30 * time.Millisecond)
	require.NoError(t, p.s.Release(soon(t), strings.Split(javas, ",")...))
	javas = c.wait(t, 2*time.Second)
	p.counts(t, 0, 5)
	if r.version.since(hasLeaseTime) {
		require.Equal(t, "0", p.do(t, "tryreleaseall", javas+","+strings.Repeat("0", 32)), "all or none")
		p.counts(t, 0, 5)
	}
	require.NoError(t, p.s.Release(soon(t), append(strings.Split(javas, ","), gos[0].ID(), gos[1].ID())...))
	p.counts(t, 5, 0)
	p.delete(t)
}
