// Package locktest is the conformance suite of the locks: rules for every kind
// of lock, each as a small test against the public API.
//
// Only _test.go files import it.
package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// Lock is the set of methods that the suite needs.
type Lock interface {
	latchkey.Locker
	Unlock(ctx context.Context) error
	LockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold]
	TryLockAsync(ctx context.Context, opts ...latchkey.LockOption) <-chan latchkey.Result[*latchkey.Hold]
	UnlockAsync(ctx context.Context) <-chan error
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	IsHeldBy(ctx context.Context, h latchkey.Holder) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	TTL(ctx context.Context) (time.Duration, error)
}

// A Factory returns the lock with the given name on a client.
type Factory func(c *latchkey.Client, name string) Lock

// A Trait is a difference from a plain reentrant lock.
type Trait func(*kind)

type kind struct {
	new          Factory
	nonReentrant bool
	shared       bool
	composed     bool
	sleep        time.Duration // longest sleep between polls; 0 if hints wake waiters
	client       []latchkey.Option
	prefix       string // prefix of every name
}

// NonReentrant is the trait of locks that refuse their present holder.
func NonReentrant() Trait { return func(k *kind) { k.nonReentrant = true } }

// Polls is the trait of locks whose waiters receive no wake-ups, and ask again
// after at most d.
func Polls(d time.Duration) Trait { return func(k *kind) { k.sleep = d } }

// Named is not a trait of a lock: it makes names begin with prefix, as the
// rights of the user require.
func Named(prefix string) Trait { return func(k *kind) { k.prefix = prefix } }

// Shared is the trait of locks that several holders may have at once.
func Shared() Trait { return func(k *kind) { k.shared = true } }

// Composed is the trait of locks that consist of other locks: after a loss, an
// Unlock by the holder finds no hold.
func Composed() Trait { return func(k *kind) { k.composed = true } }

// Client is the trait of locks whose clients have these options.
func Client(opts ...latchkey.Option) Trait { return func(k *kind) { k.client = opts } }

// A rule is one test of the suite.
type rule struct {
	name string
	test func(*env)
	skip func(kind) bool // nil: holds for every kind
	// alone is set if the test waits for another holder of the same lock.
	alone bool
}

// Run runs the suite on the locks that factory returns: on an in-memory server
// in fake time, where durations are exact, and, except for the rules about
// time, on a real server too.
func Run(t *testing.T, factory Factory, traits ...Trait) {
	k := newKind(factory, traits)
	t.Run("FakeTime", func(t *testing.T) {
		for _, r := range slices.Concat(always(), leaseRules, boundRules) {
			run(t, k, r, func(t *testing.T) {
				redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
					r.test(&env{T: t, kind: k, ctx: t.Context(), bubble: b, name: "lock"})
				})
			})
		}
	})
	t.Run("RealServer", func(t *testing.T) {
		s := redistest.Start(t)
		RunOn(t, func(t testing.TB) redis.UniversalClient { return s.Client(t) }, factory, traits...)
	})
}

// RunOn runs the suite, except for the rules about time, on real servers.
// connect returns a new connection each time.
func RunOn(t *testing.T, connect func(testing.TB) redis.UniversalClient, factory Factory, traits ...Trait) {
	k := newKind(factory, traits)
	for i, r := range always() {
		run(t, k, r, func(t *testing.T) {
			name := k.prefix + "lock " + string(rune('a'+i%26)) + r.name // a key for this rule only
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)  // fails instead of hanging
			defer cancel()
			r.test(&env{T: t, kind: k, ctx: ctx, connect: connect, name: name})
		})
	}
}

// always returns the rules that are not about time.
func always() []rule {
	return slices.Concat(exclusionRules, reentryRules, releaseRules, waitRules, closeRules, asyncRules)
}

func newKind(factory Factory, traits []Trait) kind {
	k := kind{new: factory}
	for _, f := range traits {
		f(&k)
	}
	return k
}

func run(t *testing.T, k kind, r rule, f func(*testing.T)) {
	t.Helper()
	if (r.skip == nil || !r.skip(k)) && !(r.alone && k.shared) {
		t.Run(r.name, f)
	}
}

func reentrantOnly(k kind) bool    { return k.nonReentrant }
func nonReentrantOnly(k kind) bool { return !k.nonReentrant }
func hintedOnly(k kind) bool       { return k.sleep > 0 }
func composedOnly(k kind) bool     { return k.composed }

// patience is how long to wait on a real server for something that must happen
// at some time.
const patience = 10 * time.Second

// env is the environment of a rule, on either server.
type env struct {
	*testing.T
	kind

	ctx     context.Context
	name    string                                 // of the lock
	bubble  *redistest.Env                         // nil on a real server
	connect func(testing.TB) redis.UniversalClient // nil in fake time
}

// client returns a new client with a connection of its own.
func (e *env) client(opts ...latchkey.Option) *latchkey.Client {
	e.Helper()
	c := latchkey.New(redistest.User(e, e.redis()), slices.Concat(e.kind.client, opts)...)
	e.Cleanup(func() { require.NoError(e, c.Close(), "Close") })
	return c
}

// redis returns a new connection.
func (e *env) redis() redis.UniversalClient {
	e.Helper()
	if e.bubble != nil {
		return e.bubble.Client()
	}
	return e.connect(e)
}

// lock returns the lock of the rule on a new client.
func (e *env) lock(opts ...latchkey.Option) Lock {
	e.Helper()
	return e.kind.new(e.client(opts...), e.name)
}

// until waits until cond holds. In fake time cond must hold as soon as
// everything is idle.
func (e *env) until(what string, cond func() bool) {
	e.Helper()
	if e.bubble == nil {
		redistest.Until(e, what, cond)
		return
	}
	synctest.Wait()
	require.True(e, cond(), "%s: not so, and nothing moves", what)
}

// waiting waits until n calls of c wait and c can receive a wake-up.
func (e *env) waiting(c *latchkey.Client, n int) {
	e.Helper()
	e.until("the waiters to wait", func() bool {
		s := c.Stats()
		return s.Waiting == n && (e.sleep > 0 || s.Subscriptions > 0)
	})
}

// locked checks the result of IsLocked.
func (e *env) locked(l Lock, want bool) {
	e.Helper()
	got, err := l.IsLocked(e.ctx)
	require.NoError(e, err, "IsLocked")
	require.Equal(e, want, got, "IsLocked")
}

// count checks the hold count of the holder in ctx.
func (e *env) count(ctx context.Context, l Lock, want int) {
	e.Helper()
	got, err := l.HoldCount(ctx)
	require.NoError(e, err, "HoldCount")
	require.Equal(e, want, got, "HoldCount")
}

// ttl returns the lease left.
func (e *env) ttl(l Lock) time.Duration {
	e.Helper()
	d, err := l.TTL(e.ctx)
	require.NoError(e, err, "TTL")
	return d
}

func (e *env) must(h *latchkey.Hold, err error) *latchkey.Hold {
	e.Helper()
	require.NoError(e, err)
	require.NotNil(e, h, "the Hold")
	return h
}

func (e *env) unlock(h *latchkey.Hold) {
	e.Helper()
	require.NoError(e, h.Unlock(e.ctx), "Unlock")
}

// refused checks that an acquire has failed with the error want.
func (e *env) refused(h *latchkey.Hold, err error, want error) {
	e.Helper()
	require.ErrorIs(e, err, want)
	require.Nil(e, h, "the Hold of a failed acquire")
}

// isLost checks that err says that the hold was lost: ErrLeaseLost and
// ErrNotHeld.
func (e *env) isLost(err error) {
	e.Helper()
	require.ErrorIs(e, err, latchkey.ErrNotHeld)
	require.ErrorIs(e, err, latchkey.ErrLeaseLost)
}

// open checks that a Lost is not closed.
func (e *env) open(lost <-chan struct{}) {
	e.Helper()
	select {
	case <-lost:
		require.FailNow(e, "Lost is closed, want open")
	default:
	}
}

// lockLater waits for l in a goroutine of its own.
func (e *env) lockLater(ctx context.Context, l Lock, opts ...latchkey.LockOption) <-chan Outcome {
	return Later(func() (*latchkey.Hold, error) { return l.Lock(ctx, opts...) })
}

// receive returns the next value of ch, which must come.
func receive[T any](e *env, what string, ch <-chan T) T {
	e.Helper()
	limit := patience
	if e.bubble != nil {
		limit = 24 * time.Hour
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v, ok := <-ch:
		require.True(e, ok, "%s: the channel is closed", what)
		return v
	case <-timer.C:
		require.FailNow(e, "nothing came in "+limit.String(), what)
		panic("not reached")
	}
}

// ends checks that ch is or will be closed without another value.
func ends[T any](e *env, what string, ch <-chan T) {
	e.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v, ok := <-ch:
		require.False(e, ok, "%s: one more value: %v", what, v)
	case <-timer.C:
		require.FailNow(e, "still open after "+patience.String(), what)
	}
}

// prompt checks that something happened soon after a release; in fake time, at
// the same moment.
func (e *env) prompt(since, at time.Time) {
	e.Helper()
	limit := e.sleep
	if e.bubble == nil {
		limit += 500 * time.Millisecond // a busy machine; a lost hint would cost seconds
	}
	require.LessOrEqual(e, at.Sub(since), limit, "time from the release to the next grant")
}

// exactly checks a duration, which is exact only in fake time.
func (e *env) exactly(want, got time.Duration, what string) {
	e.Helper()
	if e.bubble != nil {
		require.Equal(e, want, got, what)
		return
	}
	// A wait ends a little early if a last request could not be answered in
	// time.
	require.Greater(e, got, want-20*time.Millisecond, what)
	require.Less(e, got, want+2*time.Second, what)
}

var errBoom = errors.New("boom")
