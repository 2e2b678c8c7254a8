package elect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

var errWork = errors.New("no paper")

// onBoth runs f in fake time, in which durations can be compared, and on a real server.
func onBoth(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient, fake bool)) {
	t.Run("FakeTime", func(t *testing.T) {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) { f(t, b.Client(), true) })
	})
	t.Run("Redis", func(t *testing.T) { f(t, redistest.Start(t).Client(t), false) })
}

// A terms checks the terms of all candidates of a test: a term begins when the context of
// the one before is done, and with a greater number.
type terms struct {
	t    *testing.T
	mu   sync.Mutex
	live context.Context //nolint:containedctx // of the last term
	last elect.Term
	came chan string // the identity of each leader
}

func newTerms(t *testing.T) *terms { return &terms{t: t, came: make(chan string, 10000)} }

func (ts *terms) begin(ctx context.Context, id string, term elect.Term) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	assert.Greater(ts.t, term.Number, ts.last.Number, "terms grow")
	assert.False(ts.t, term.Since.Before(ts.last.Since))
	if ts.live != nil {
		assert.Error(ts.t, ts.live.Err(), "%s begins", id)
	}
	ts.last, ts.live = term, ctx
	ts.came <- id
}

// lead is the function of a candidate: it leads until its context is done.
func (ts *terms) lead(id string) func(context.Context, elect.Term) error {
	return func(ctx context.Context, term elect.Term) error {
		ts.begin(ctx, id, term)
		<-ctx.Done()
		return nil
	}
}

// A running is a candidate that runs.
type running struct {
	*elect.Election
	client *latchkey.Client
	cancel context.CancelFunc
	ended  chan error
}

// stop ends a Run, and waits for it.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	require.ErrorIs(t, locktest.Receive(t, "the end of a Run", r.ended), context.Canceled)
}

// stand runs a candidate on a client of its own until the end of the test.
func (ts *terms) stand(rdb redis.UniversalClient, id string, opts ...elect.Option) *running {
	return ts.standOn(locktest.NewClient(ts.t, rdb), id, opts...)
}

func (ts *terms) standOn(c *latchkey.Client, id string, opts ...elect.Option) *running {
	return ts.standWith(c, id, ts.lead(id), opts...)
}

// standWith is standOn with a function of its own.
func (ts *terms) standWith(c *latchkey.Client, id string, lead func(context.Context, elect.Term) error, opts ...elect.Option) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{elect.New(c, "e", append([]elect.Option{elect.Identity(id)}, opts...)...), c, cancel, make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.ended <- r.Run(ctx, lead)
	}()
	ts.t.Cleanup(func() { cancel(); <-over })
	return r
}

// comes returns the next leader, which must come.
func (ts *terms) comes() string {
	ts.t.Helper()
	select {
	case id := <-ts.came:
		return id
	case <-time.After(time.Minute):
		require.FailNow(ts.t, "nobody leads")
		panic("not reached")
	}
}

func leader(t *testing.T, e *elect.Election) elect.Leader {
	t.Helper()
	l, err := e.Leader(t.Context())
	require.NoError(t, err)
	return l
}

// What everybody can read, what is left in Redis, and how Run ends.
func TestRun(t *testing.T) { onBoth(t, testRun) }

func testRun(t *testing.T, rdb redis.UniversalClient, _ bool) {
	ctx := t.Context()
	for _, name := range []string{"e", "{e}", "a b{c}d"} {
		c := locktest.NewClient(t, rdb)
		e := elect.New(c, name, elect.Identity("ann"), elect.Value("10.0.0.1:80"))
		require.Equal(t, name, e.Name())
		require.Equal(t, "ann", e.Identity())
		_, err := e.Leader(ctx)
		require.ErrorIs(t, err, elect.ErrNoLeader)
		var last elect.Term
		for _, want := range []error{nil, errWork} {
			err := e.Run(ctx, func(ctx context.Context, term elect.Term) error {
				require.NoError(t, ctx.Err())
				require.Greater(t, term.Number, last.Number)
				last = term
				l := leader(t, elect.New(c, name))
				require.Equal(t, "ann", l.Identity)
				require.Equal(t, "10.0.0.1:80", l.Value)
				require.Equal(t, term.Number, l.Term.Number)
				require.True(t, term.Since.Equal(l.Term.Since))
				require.NotEmpty(t, l.Host)
				require.Positive(t, l.PID)
				require.ErrorIs(t, e.Run(ctx, nil), elect.ErrRunning)
				return want
			})
			require.Equal(t, want, err)
			_, err = e.Leader(ctx)
			require.ErrorIs(t, err, elect.ErrNoLeader, "it has given up the lead")
		}
		require.ErrorIs(t, e.Resign(ctx), elect.ErrNotLeader)
		require.ErrorIs(t, e.Transfer(ctx, "bob"), elect.ErrNotLeader)
		for _, key := range rdb.Keys(ctx, "*").Val() {
			if !strings.HasPrefix(key, "redisson_lock_token:") {
				require.Positive(t, rdb.PTTL(ctx, key).Val(), key)
				require.LessOrEqual(t, rdb.PTTL(ctx, key).Val(), 24*time.Hour, key)
			}
			require.NotContains(t, key, "latchkey_elect}", "no lock is left")
		}
		require.NoError(t, c.Close())
	}
	require.Len(t, rdb.Keys(ctx, "*").Val(), 6, "each name has keys of its own")
}

// Run ends with the cause of its context, after its function.
func TestRunEnds(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		e := elect.New(locktest.NewClient(t, b.Client()), "e")
		ctx, cancel := context.WithCancelCause(t.Context())
		over := false
		err := e.Run(ctx, func(ctx context.Context, _ elect.Term) error {
			cancel(errWork)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), errWork)
			time.Sleep(time.Minute)
			over = true
			return errors.New("it does not count")
		})
		require.True(t, over)
		require.Equal(t, errWork, err)
		require.Equal(t, errWork, e.Run(ctx, nil))

		require.PanicsWithValue(t, "no ink", func() {
			_ = e.Run(t.Context(), func(context.Context, elect.Term) error { panic("no ink") })
		})
		_, err = e.Leader(t.Context())
		require.ErrorIs(t, err, elect.ErrNoLeader)

		// The context of a term says what that of Run says, and no more.
		type key struct{}
		worker := latchkey.WithHolder(context.WithValue(t.Context(), key{}, "v"))
		require.NoError(t, e.Run(worker, func(ctx context.Context, _ elect.Term) error {
			require.Equal(t, "v", ctx.Value(key{}))
			want, _ := latchkey.HolderFrom(worker)
			got, ok := latchkey.HolderFrom(ctx)
			require.True(t, ok)
			require.Equal(t, want, got)
			return nil
		}))
	})
}

// A client that is closed ends the term, and Run.
func TestClose(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		one := ts.stand(b.Client(), "a")
		ts.comes()
		two := ts.stand(b.Client(), "b")
		b.Advance(time.Second)
		require.NoError(t, two.client.Close())
		require.ErrorIs(t, <-two.ended, latchkey.ErrClosed)
		require.NoError(t, one.client.Close())
		require.ErrorIs(t, <-one.ended, latchkey.ErrClosed)
		require.ErrorIs(t, context.Cause(ts.live), latchkey.ErrClosed)
	})
}

// When a leader gives up the lead, the next one leads, and everybody knows, within 100 ms.
func TestCleanExit(t *testing.T) { onBoth(t, testCleanExit) }

func testCleanExit(t *testing.T, rdb redis.UniversalClient, fake bool) {
	ts := newTerms(t)
	var all []*running
	for _, id := range []string{"a", "b", "c"} {
		all = append(all, ts.stand(rdb, id))
	}
	follower := elect.New(locktest.NewClient(t, rdb), "e")
	seen, unfollow := follow(t, follower)
	defer unfollow()
	first := ts.comes()
	require.Equal(t, first, someone(t, seen).Identity)
	for range 2 {
		i := slices.IndexFunc(all, func(r *running) bool { return r.Identity() == first })
		start := time.Now()
		all[i].stop(t)
		all = slices.Delete(all, i, i+1)
		next := ts.comes()
		require.NotEqual(t, first, next)
		l := someone(t, seen)
		require.Equal(t, next, l.Identity)
		require.True(t, !fake || time.Since(start) < 100*time.Millisecond)
		first = next
	}
	all[0].stop(t)
	for locktest.Receive(t, "an end", seen) != (elect.Leader{}) {
	}
}

// follow returns the changes that a follower sees, from a goroutine that unfollow ends.
func follow(t *testing.T, e *elect.Election) (changes chan elect.Leader, unfollow func()) {
	ctx, cancel := context.WithCancel(t.Context())
	changes = make(chan elect.Leader, 10000)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for l := range e.Observe(ctx) {
			changes <- l
		}
	}()
	return changes, func() { cancel(); <-over }
}

// someone returns the next leader that a follower sees who is somebody.
func someone(t *testing.T, changes <-chan elect.Leader) elect.Leader {
	t.Helper()
	for {
		if l := locktest.Receive(t, "a change", changes); l != (elect.Leader{}) {
			return l
		}
	}
}

// A leader that can no longer reach Redis: its context ends with the lease at the latest,
// before the next one leads, and the next one leads a second after the lease at the
// latest, and is seen.
func TestLost(t *testing.T) {
	for _, lease := range []time.Duration{15 * time.Second, 0} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			var opts []elect.Option
			want := 30 * time.Second
			if lease > 0 {
				opts, want = []elect.Option{elect.Lease(lease)}, lease
			}
			ts := newTerms(t)
			cut := b.Client()
			ts.stand(cut, "a", opts...)
			require.Equal(t, "a", ts.comes())
			live := ts.live
			ts.stand(b.Client(), "b", opts...)
			seen, unfollow := follow(t, elect.New(locktest.NewClient(t, b.Client()), "e"))
			defer unfollow()
			b.Advance(time.Minute)
			require.NoError(t, live.Err(), "it is renewed")
			require.Equal(t, "a", (<-seen).Identity)
			b.Partition(cut)
			start := time.Now()
			require.Equal(t, "b", ts.comes())
			require.LessOrEqual(t, time.Since(start), want+time.Second)
			require.Greater(t, time.Since(start), want/2)
			require.ErrorIs(t, context.Cause(live), latchkey.ErrLeaseLost)
			require.Equal(t, "b", someone(t, seen).Identity)
			require.LessOrEqual(t, time.Since(start), want+time.Second)
			b.Heal(cut)
			b.Advance(time.Minute)
			require.Empty(t, ts.came, "a stands again, behind b")
		})
	}
}

// Those who observe see who leads, that nobody does any more, and each change, on a client
// that sends a request for each; and leave nothing behind.
func TestObserve(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		c := locktest.NewClient(t, b.Client())
		seen, unfollow := follow(t, elect.New(c, "e"))
		require.Zero(t, <-seen, "nobody leads yet")
		cut := b.Client()
		a := ts.stand(cut, "a")
		ts.comes()
		b.Advance(100 * time.Millisecond)
		require.Equal(t, "a", (<-seen).Identity)
		late, unfollowLate := follow(t, elect.New(c, "e"))
		require.Equal(t, "a", (<-late).Identity, "who comes later is told at once")
		require.Equal(t, 1, c.Stats().Subscriptions)
		b.Partition(cut)
		start := time.Now()
		require.Zero(t, <-seen)
		require.Greater(t, time.Since(start), 15*time.Second)
		require.LessOrEqual(t, time.Since(start), 30*time.Second+100*time.Millisecond, "the lease has ended")
		require.Zero(t, <-late)
		b.Heal(cut)
		ts.comes()
		require.Equal(t, "a", (<-seen).Identity)
		a.stop(t)
		b.Advance(100 * time.Millisecond)
		require.Zero(t, <-seen)
		unfollow()
		unfollowLate()
		b.Advance(time.Minute)
		require.Zero(t, c.Stats().Subscriptions)
		was := b.Commands("")
		b.Advance(time.Hour)
		require.Equal(t, was, b.Commands(""))

		for range elect.New(c, "e").Observe(t.Context()) {
			break
		}
		require.NoError(t, c.Close())
		for range elect.New(c, "e").Observe(t.Context()) {
			t.Error("the client is closed")
		}
	})
}

// A follower whose messages are lost sees a change at the recheck.
func TestObserveRechecks(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		for _, mode := range []latchkey.PubSubMode{latchkey.PubSubAuto, latchkey.Polling} {
			ts := newTerms(t)
			rdb := b.Client()
			seen, unfollow := follow(t, elect.New(locktest.NewClient(t, rdb, latchkey.WithPubSub(mode)), "e"))
			require.Zero(t, <-seen)
			b.Partition(rdb)
			a := ts.stand(b.Client(), "a")
			ts.comes()
			b.Advance(time.Second)
			b.Heal(rdb)
			start := time.Now()
			require.Equal(t, "a", someone(t, seen).Identity)
			require.LessOrEqual(t, time.Since(start), 10*time.Second)
			a.stop(t)
			unfollow()
		}
	})
}

// A leader that was lost stands again.
func TestStandsAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		cut := b.Client()
		ts.stand(cut, "a")
		ts.comes()
		for range 3 {
			b.Partition(cut)
			<-ts.live.Done()
			b.Advance(time.Minute)
			require.Empty(t, ts.came)
			start := time.Now()
			b.Heal(cut)
			ts.comes()
			require.Less(t, time.Since(start), 10*time.Second)
		}
	})
}

// A record that is lost is written again while the lock is held, and says what it said.
func TestLostRecord(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		a := ts.stand(b.Client(), "a")
		ts.comes()
		before, err := a.Leader(t.Context())
		require.NoError(t, err)
		b.Advance(time.Minute)
		require.True(t, b.Mini.Del("{e}:latchkey_leader"), "%v", b.Mini.Keys())
		_, err = a.Leader(t.Context())
		require.ErrorIs(t, err, elect.ErrNoLeader)
		b.Advance(time.Minute)
		after, err := a.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.NoError(t, ts.live.Err())
	})
}

// A password that is refused ends Run if Redis has not answered yet. Later on it may be
// about to change.
func TestRefusedPassword(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		rdb := b.Client()
		a := ts.stand(rdb, "a")
		ts.comes()
		b.Partition(rdb)
		<-ts.live.Done()
		b.Mini.RequireAuth("another one")
		b.Heal(rdb)
		b.Advance(time.Minute)

		late := ts.stand(b.Client(), "late")
		require.ErrorContains(t, <-late.ended, "NOAUTH")
		known := ts.standOn(a.client, "known")
		b.Advance(time.Minute)
		require.Empty(t, known.ended, "Redis has answered that client")
		known.stop(t)
		b.Mini.RequireAuth("")
		require.Equal(t, "a", ts.comes())
	})
}

// A leader that resigns stands behind the others, and leads again when it is alone.
func TestResign(t *testing.T) { onBoth(t, testResign) }

func testResign(t *testing.T, rdb redis.UniversalClient, _ bool) {
	ts := newTerms(t)
	shared := locktest.NewClient(t, rdb)
	all := map[string]*running{"a": ts.stand(rdb, "a"), "b": ts.standOn(shared, "b"), "c": ts.standOn(shared, "c")}
	was := ts.comes()
	for range 6 {
		live := ts.live
		require.NoError(t, all[was].Resign(t.Context()))
		require.ErrorIs(t, context.Cause(live), elect.ErrResigned)
		next := ts.comes()
		require.NotEqual(t, was, next)
		was = next
	}
}

// Alone, it leads again after a while; its function may resign, and then does not wait.
func TestResignAlone(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		e := elect.New(locktest.NewClient(t, b.Client()), "e")
		n, start := 0, time.Now()
		require.NoError(t, e.Run(t.Context(), func(ctx context.Context, _ elect.Term) error {
			if n++; n == 3 {
				return nil
			}
			require.NoError(t, e.Resign(ctx))
			require.ErrorIs(t, context.Cause(ctx), elect.ErrResigned)
			return errWork // it does not count
		}))
		require.Equal(t, 3, n)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// The lead goes to the candidate that is named, without another term in between.
func TestTransfer(t *testing.T) { onBoth(t, testTransfer) }

func testTransfer(t *testing.T, rdb redis.UniversalClient, fake bool) {
	ts := newTerms(t)
	shared := locktest.NewClient(t, rdb)
	all := map[string]*running{"a": ts.stand(rdb, "a"), "b": ts.stand(rdb, "b"), "c": ts.standOn(shared, "c"), "d": ts.standOn(shared, "d")}
	seen, unfollow := follow(t, elect.New(shared, "e"))
	defer unfollow()
	was := ts.comes()
	require.Equal(t, was, someone(t, seen).Identity)
	for _, to := range []string{"a", "b", "c", "d", "b", "d", "c", "a"} {
		if to == was {
			continue
		}
		live, start := ts.live, time.Now()
		require.NoError(t, all[was].Transfer(t.Context(), to), "%s to %s", was, to)
		require.ErrorIs(t, context.Cause(live), elect.ErrTransferred)
		require.Equal(t, to, ts.comes())
		require.True(t, !fake || time.Since(start) < 100*time.Millisecond)
		require.Equal(t, to, someone(t, seen).Identity)
		was = to
	}
	last := leader(t, all["b"].Election)
	require.Equal(t, was, last.Identity)
	require.Equal(t, ts.last.Number, last.Term.Number)
	live := ts.live
	all[was].stop(t)
	require.Error(t, live.Err())
	require.NotEqual(t, was, ts.comes(), "who was transferred to releases as any leader")
}

// Three commands come between one leader's function and the next one's, in another client
// or in the same: pass, acquire, begin.
func TestTransferRoundTrips(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		const trip = 10 * time.Millisecond
		ts := newTerms(t)
		var returned time.Time
		warm := false
		stand := func(c *latchkey.Client, id string) *running {
			return ts.standWith(c, id, func(ctx context.Context, term elect.Term) error {
				gap := time.Since(returned)
				ts.begin(ctx, id, term)
				if warm {
					assert.Less(t, gap, 3*trip+time.Millisecond, id)
				}
				<-ctx.Done()
				returned = time.Now()
				return nil
			})
		}
		one, two := b.Client(), b.Client()
		shared := locktest.NewClient(t, one)
		all := map[string]*running{"a": stand(shared, "a")}
		was := ts.comes()
		all["b"], all["c"] = stand(shared, "b"), stand(locktest.NewClient(t, two), "c")
		b.Advance(time.Second)
		for _, rdb := range []*redis.Client{one, two} {
			b.Link(rdb).Delay(trip)
			var pings sync.WaitGroup
			for range 8 { // at a time, so that there are connections for all that is sent at a time
				pings.Go(func() { assert.NoError(t, rdb.Ping(t.Context()).Err()) })
			}
			pings.Wait()
		}
		for i, to := range []string{"b", "c", "a", "c", "b", "a", "c", "a", "b", "c"} {
			warm = i >= 5 // all scripts are loaded
			returned = time.Time{}
			require.NoError(t, all[was].Transfer(t.Context(), to), "%s to %s", was, to)
			require.Equal(t, to, ts.comes())
			require.False(t, returned.IsZero())
			b.Advance(time.Second)
			was = to
		}
		b.Link(one).Delay(0)
		b.Link(two).Delay(0)
	})
}

// The lead is not transferred to a candidate that is not there: the leader leads on.
func TestTransferToNobody(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		gone := b.Client()
		other := ts.stand(gone, "c")
		cut := b.Client()
		a := ts.stand(cut, "a", elect.Identity("a"))
		for ts.comes() != "a" {
			require.NoError(t, other.Resign(t.Context()))
		}
		ctx, live := t.Context(), ts.live
		start := time.Now()
		require.ErrorIs(t, a.Transfer(ctx, "b"), elect.ErrNoCandidate)
		require.Equal(t, time.Second, time.Since(start))
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, a.Transfer(short, "b"), elect.ErrNoCandidate)
		b.Partition(gone)
		require.ErrorIs(t, a.Transfer(ctx, "c"), elect.ErrNoCandidate, "it is not reached")
		b.Heal(gone)
		b.Partition(cut)
		err := a.Transfer(ctx, "c")
		require.Equal(t, 1, strings.Count(err.Error(), "elect: transfer"), err)
		b.Heal(cut)
		require.ErrorContains(t, a.Transfer(ctx, "a"), "is that of this candidate")
		require.ErrorContains(t, a.Transfer(ctx, ""), "empty")
		require.ErrorIs(t, other.Transfer(ctx, "a"), elect.ErrNotLeader)
		b.Advance(time.Minute)
		require.NoError(t, live.Err())
		require.Empty(t, ts.came)
		require.NoError(t, a.Transfer(ctx, "c"), "now it is")
		require.Equal(t, "c", ts.comes())
	})
}

// A candidate that accepts the lead and goes: whoever comes first leads next, or the next
// one when the lease has ended.
func TestTransferToOneWhoGoes(t *testing.T) {
	for name, stop := range map[string]bool{"it stops": true, "it dies": false} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			ts := newTerms(t)
			hold := make(chan struct{})
			a := ts.standWith(locktest.NewClient(t, b.Client()), "a", func(ctx context.Context, term elect.Term) error {
				ts.begin(ctx, "a", term)
				<-ctx.Done()
				<-hold // it takes its time
				return nil
			})
			defer a.stop(t)
			require.Equal(t, "a", ts.comes())
			gone := b.Client()
			r := ts.stand(gone, "b")
			b.Advance(time.Second)
			transferred := make(chan error, 1)
			go func() { transferred <- a.Transfer(t.Context(), "b") }()
			b.Advance(time.Second)
			require.Error(t, ts.live.Err())
			if stop {
				r.stop(t)
			} else {
				b.Partition(gone)
			}
			start := time.Now()
			close(hold)
			err := <-transferred
			ts.stand(b.Client(), "c")
			next := ts.comes()
			require.NotEqual(t, "b", next, name)
			if stop {
				require.ErrorIs(t, err, elect.ErrNoCandidate)
				require.Less(t, time.Since(start), time.Second)
			} else {
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(start), 7*time.Second)
			}
		})
	}
}

// A Transfer that comes when the term has been transferred already, and its function has
// not returned yet, changes nothing.
func TestTransferAfterTransfer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		transferred, hold := make(chan error, 1), make(chan struct{})
		var a *running
		a = ts.standWith(locktest.NewClient(t, b.Client()), "a", func(ctx context.Context, term elect.Term) error {
			ts.begin(ctx, "a", term)
			<-hold
			transferred <- a.Transfer(ctx, "b") // it does not wait for its function
			<-ctx.Done()
			<-hold
			return nil
		})
		require.Equal(t, "a", ts.comes())
		rc := ts.stand(b.Client(), "c")
		b.Advance(time.Second)
		rb := ts.stand(b.Client(), "b")
		for range 10 {
			b.Advance(time.Second)
			hold <- struct{}{}
			require.NoError(t, <-transferred)
			require.ErrorIs(t, a.Transfer(t.Context(), "c"), elect.ErrNotLeader)
			hold <- struct{}{}
			require.Equal(t, "b", ts.comes())
			require.NoError(t, rb.Transfer(t.Context(), "a"))
			require.Equal(t, "a", ts.comes())
		}
		a.cancel()
		close(hold)
		a.stop(t)
		rb.stop(t)
		rc.stop(t)
	})
}

// A candidate that stops when the lock has been passed to it leaves the lead to others.
func TestTransferToOneWhoStops(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		for n := range 40 { // commands of the candidate, from the offer on
			ts := newTerms(t)
			ra := ts.stand(b.Client(), "a", elect.Lease(time.Minute))
			require.Equal(t, "a", ts.comes())
			away := b.Client()
			rb := ts.stand(away, "b", elect.Lease(time.Minute))
			b.Advance(time.Second)
			var left atomic.Int32
			left.Store(int32(n / 4))
			b.Link(away).OnCommand(func([]string) redistest.Act {
				if left.Add(-1) < 0 {
					rb.cancel()
				}
				return redistest.Pass
			})
			_ = ra.Transfer(t.Context(), "b")
			b.Link(away).OnCommand(nil)
			start := time.Now()
			rb.stop(t)
			b.Advance(10 * time.Second)
			require.NoError(t, ts.live.Err(), "somebody leads: %d", n)
			require.Less(t, time.Since(start), 11*time.Second)
			ra.stop(t)
		}
	})
}

// A candidate that stops while it accepts declines what it has accepted: nobody waits for it.
func TestTransferToOneWhoStopsAccepting(t *testing.T) {
	for _, when := range []string{"before", "after", "without a reply"} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			ts := newTerms(t)
			ra := ts.stand(b.Client(), "a", elect.Lease(time.Minute))
			require.Equal(t, "a", ts.comes())
			away := b.Client()
			rb := ts.stand(away, "b", elect.Lease(time.Minute))
			b.Advance(time.Second)
			for _, r := range []struct {
				*running
				to string
			}{{ra, "b"}, {rb, "a"}} { // all scripts are loaded
				require.NoError(t, r.Transfer(t.Context(), r.to))
				require.Equal(t, r.to, ts.comes())
				b.Advance(time.Second)
			}
			b.Link(away).Delay(20 * time.Millisecond)
			b.Link(away).OnCommand(func(args []string) redistest.Act {
				if !locktest.Runs(args, lua.ElectAccept) {
					return redistest.Pass
				}
				if when == "after" {
					time.AfterFunc(10*time.Millisecond, rb.cancel)
					return redistest.Pass
				}
				rb.cancel()
				if when == "without a reply" {
					b.Link(away).OnCommand(nil)
					return redistest.LoseRST
				}
				return redistest.Pass
			})
			start := time.Now()
			_ = ra.Transfer(t.Context(), "b") // it may have been passed, and given back
			rb.stop(t)
			redistest.Until(t, "a leader", func() bool {
				ts.mu.Lock()
				defer ts.mu.Unlock()
				return ts.live.Err() == nil
			})
			require.Less(t, time.Since(start), 2*time.Second, when)
			b.Link(away).OnCommand(nil)
			b.Link(away).Delay(0)
			ra.stop(t)
		})
	}
}

// A candidate takes the lock that is passed to it also if a reply is lost.
func TestTransferAndALostReply(t *testing.T) {
	for n := range 40 {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			ts := newTerms(t)
			var slow atomic.Int64
			a := ts.standWith(locktest.NewClient(t, b.Client()), "a", func(ctx context.Context, term elect.Term) error {
				ts.begin(ctx, "a", term)
				<-ctx.Done()
				time.Sleep(time.Duration(slow.Load()))
				return nil
			})
			require.Equal(t, "a", ts.comes())
			away := b.Client()
			rb, rc := ts.stand(away, "b"), ts.stand(b.Client(), "c")
			b.Advance(time.Second)
			require.NoError(t, a.Transfer(t.Context(), "b"))
			require.Equal(t, "b", ts.comes())
			require.NoError(t, rb.Transfer(t.Context(), "a"))
			require.Equal(t, "a", ts.comes())
			b.Advance(3 * time.Second)
			slow.Store(int64(n) * 2 * int64(time.Millisecond))
			b.Link(away).Delay(10 * time.Millisecond)
			var lost atomic.Bool
			b.Link(away).OnCommand(func(args []string) redistest.Act {
				if (locktest.Runs(args, lua.RLockAcquire) || locktest.Runs(args, lua.RLockRelease)) && !lost.Swap(true) {
					return redistest.LoseRST
				}
				return redistest.Pass
			})
			require.NoError(t, a.Transfer(t.Context(), "b"))
			require.Equal(t, "b", ts.comes())
			require.True(t, lost.Load())
			b.Link(away).OnCommand(nil)
			b.Link(away).Delay(0)
			for _, r := range []*running{a, rc, rb} {
				r.stop(t)
			}
		})
	}
}

// A Transfer writes a record that is lost again.
func TestTransferAfterTheRecordIsLost(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		ra := ts.stand(b.Client(), "a")
		require.Equal(t, "a", ts.comes())
		rb := ts.stand(b.Client(), "b")
		b.Advance(time.Second)
		require.EqualValues(t, 1, b.Redis.Del(t.Context(), "{e}:latchkey_leader").Val())
		require.NoError(t, ra.Transfer(t.Context(), "b"))
		require.Equal(t, "b", ts.comes())
		rb.stop(t)
		ra.stop(t)
	})
}

// A reply that is lost, and a request that is carried out twice, do no harm.
func TestLostReplies(t *testing.T) {
	for _, act := range []redistest.Act{redistest.LoseRST, redistest.Twice} {
		redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
			for lost := range 24 { // what sets up a connection is among them
				ts := newTerms(t)
				conns := []*redis.Client{b.Client(), b.Client()}
				ra, rb := ts.stand(conns[0], "a"), (*running)(nil)
				ts.comes()
				rb = ts.stand(conns[1], "b")
				b.Advance(time.Second)
				for _, conn := range conns {
					n := 0
					b.Link(conn).OnCommand(func([]string) redistest.Act {
						if n++; n == lost+1 {
							return act
						}
						return redistest.Pass
					})
				}
				live := ts.live
				err := ra.Transfer(t.Context(), "b")
				if errors.Is(err, elect.ErrNoCandidate) { // it has not heard of it in time
					require.NoError(t, live.Err(), lost)
					err = ra.Transfer(t.Context(), "b")
				}
				require.NoError(t, err, lost)
				require.Equal(t, "b", ts.comes(), lost)
				if err := rb.Resign(t.Context()); err != nil {
					require.Equal(t, redistest.Twice, act, "a release that is run twice finds nothing")
					require.ErrorIs(t, err, latchkey.ErrLeaseLost)
				}
				require.Equal(t, "a", ts.comes(), lost)
				rb.stop(t)
				ra.stop(t)
				for len(ts.came) > 0 {
					ts.comes()
				}
			}
		})
	}
}

// A thousand candidates of one client use one connection for their messages, and a change
// costs a few commands.
func TestThousand(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		const n = 1000
		ts := newTerms(t)
		first := ts.stand(b.Client(), "first")
		ts.comes()
		rdb := b.Client()
		c := locktest.NewClient(t, rdb)
		var all []*running
		for i := range n {
			all = append(all, ts.standOn(c, fmt.Sprint("candidate ", i)))
		}
		b.Advance(10 * time.Second)
		require.LessOrEqual(t, c.Stats().Subscriptions, 2)
		was := b.Link(rdb).Commands("")
		b.Advance(time.Minute)
		require.Less(t, b.Link(rdb).Commands("")-was, int64(60), "to wait costs a few commands for the client")
		subscribed := b.Commands("subscribe")
		next := first
		for range 5 {
			before := b.Commands("")
			require.NoError(t, next.Transfer(t.Context(), "candidate 777"))
			require.Equal(t, "candidate 777", ts.comes())
			require.NoError(t, all[777].Resign(t.Context()))
			id := ts.comes()
			require.NotEqual(t, "candidate 777", id)
			if next = first; id != "first" {
				i, err := strconv.Atoi(strings.TrimPrefix(id, "candidate "))
				require.NoError(t, err)
				next = all[i]
			}
			require.Less(t, b.Commands("")-before, int64(60), "two changes")
		}
		require.LessOrEqual(t, b.Commands("subscribe")-subscribed, int64(4))
	})
}

func TestBadInput(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := locktest.NewClient(t, b.Client())
		for text, opt := range map[string]elect.Option{
			"Identity: the identity is empty": elect.Identity(""), "257 bytes": elect.Identity(strings.Repeat("x", 257)), "is not UTF-8": elect.Identity("\xff"),
			"4097 bytes": elect.Value(strings.Repeat("x", 4097)), "Lease of 99ms": elect.Lease(99 * time.Millisecond), "the most is": elect.Lease(1 << 62),
		} {
			require.Contains(t, panicWith(func() { elect.New(c, "e", opt) }), text)
		}
		require.Contains(t, panicWith(func() { elect.New(nil, "e") }), "nil")
		require.Contains(t, panicWith(func() { elect.New(c, "") }), "empty")
		elect.New(c, "e", elect.Identity(strings.Repeat("x", 256)), elect.Value(strings.Repeat("x", 4096)), elect.Lease(100*time.Millisecond))
	})
}

func panicWith(f func()) (text any) {
	defer func() { text = recover() }()
	f()
	return nil
}

// What does not end by itself ends Run; what does is outlived.
func TestErrors(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx := t.Context()
		e := elect.New(locktest.NewClient(t, b.Client()), "e")
		for key, kind := range map[string]string{"{e}:latchkey_elect": "list", "{e}:latchkey_leader": "list"} {
			require.NoError(t, b.Redis.LPush(ctx, key, kind).Err())
			require.ErrorIs(t, e.Run(ctx, nil), latchkey.ErrKeyConflict, key)
			require.NoError(t, b.Redis.Del(ctx, key).Err())
		}
		b.Advance(time.Minute)

		rdb := b.Client()
		ts := newTerms(t)
		b.Partition(rdb)
		ts.stand(rdb, "a")
		b.Advance(10 * time.Minute)
		b.Heal(rdb)
		start := time.Now()
		require.Equal(t, "a", ts.comes())
		require.LessOrEqual(t, time.Since(start), 15*time.Second)
	})
}

// The record of a leader is there for as long as it leads, with the same beginning.
func TestLongTerm(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ts := newTerms(t)
		c := locktest.NewClient(t, b.Client(), latchkey.WithRecheck(time.Hour), latchkey.WithWatchdogTimeout(10*time.Hour))
		a := ts.standOn(c, "a")
		ts.comes()
		began := ts.last
		for range 2 {
			b.Advance(time.Hour)
			require.Greater(t, b.Mini.TTL("{e}:latchkey_leader"), 24*time.Hour-2*time.Minute, "it is written again")
			l := leader(t, a.Election)
			require.Equal(t, "a", l.Identity)
			require.Equal(t, began.Number, l.Term.Number)
			require.True(t, began.Since.Equal(l.Term.Since))
		}
		a.stop(t)
		b.Advance(25 * time.Hour)
		require.Equal(t, []string{"redisson_lock_token:{e}:latchkey_elect"}, b.Redis.Keys(t.Context(), "*").Val())
	})
}

// Candidates of one client with leases of their own: each term has its own.
func TestLeasesDiffer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx := t.Context()
		c := locktest.NewClient(t, b.Client())
		ends := make(chan error, 2)
		run := func(id string, lease time.Duration) {
			ends <- elect.New(c, "e", elect.Identity(id), elect.Lease(lease)).Run(ctx, func(context.Context, elect.Term) error {
				left := b.Redis.PTTL(ctx, "{e}:latchkey_elect").Val()
				assert.LessOrEqual(t, left, lease, id)
				assert.Greater(t, left, lease*2/3, id)
				return nil
			})
		}
		err := elect.New(c, "e").Run(ctx, func(context.Context, elect.Term) error {
			for _, lease := range []time.Duration{20 * time.Second, time.Second} {
				go run(lease.String(), lease)
				b.Advance(time.Millisecond)
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, <-ends)
		require.NoError(t, <-ends)
	})
}

// A candidate that has lost the lock, or comes after a later term, does not begin.
func TestBeginScript(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	run := func(s *lua.Script, args ...any) []int64 {
		t.Helper()
		got, err := rdb.Eval(ctx, s.Source, []string{"lock", "record"}, args...).Int64Slice()
		require.NoError(t, err)
		return got
	}
	begin := func(holder string, term int) []int64 {
		t.Helper()
		return run(lua.ElectBegin, holder, term, "id of "+holder, "v", "who", 60000, "ch", "PUBLISH", 0)
	}
	status := func(got []int64) int64 { return got[0] }

	require.EqualValues(t, -1, status(begin("a:1", 5)), "it does not have the lock")
	require.Zero(t, rdb.Exists(ctx, "record").Val())
	require.NoError(t, rdb.HSet(ctx, "lock", "a:1", 1).Err())
	first := begin("a:1", 5)
	require.EqualValues(t, 1, status(first))
	time.Sleep(2 * time.Millisecond)
	require.Equal(t, first[:2], begin("a:1", 5)[:2], "asking twice is the same")
	require.NoError(t, rdb.Del(ctx, "lock").Err())
	require.NoError(t, rdb.HSet(ctx, "lock", "b:1", 1).Err())
	require.EqualValues(t, 0, status(begin("b:1", 5)), "it was begun by somebody else")
	require.EqualValues(t, 0, status(begin("b:1", 4)), "a later one was begun")
	require.Equal(t, "id of a:1", rdb.HGet(ctx, "record", "identity").Val())

	offer := func(holder, nonce, next string) int64 {
		t.Helper()
		return status(run(lua.ElectOffer, holder, 6, nonce, next, "ch", "PUBLISH"))
	}
	accept := func(holder, nonce string, yes int) int64 {
		t.Helper()
		return status(run(lua.ElectAccept, holder, nonce, yes, "ch", "PUBLISH"))
	}
	require.EqualValues(t, -1, offer("a:1", "n", "c"), "it has lost the lock")
	require.EqualValues(t, -1, offer("b:1", "n", "c"), "it has not begun")
	require.EqualValues(t, 1, status(begin("b:1", 6)))
	require.EqualValues(t, 0, accept("c:1", "n", 1), "nothing is offered")
	for range 2 {
		require.EqualValues(t, 1, offer("b:1", "n", "c"))
	}
	require.EqualValues(t, 0, accept("c:1", "m", 1), "that is not offered")
	for range 2 {
		require.EqualValues(t, 1, accept("c:1", "n", 1))
	}
	require.EqualValues(t, 1, offer("b:1", "n", "c"), "a late repetition takes nothing back")
	require.EqualValues(t, 0, accept("d:1", "n", 1), "somebody else has accepted")
	require.EqualValues(t, 0, accept("d:1", "n", 0))
	require.EqualValues(t, 0, offer("b:1", "n", ""), "it was accepted")
	for range 2 {
		_ = accept("c:1", "n", 0)
		require.False(t, rdb.HExists(ctx, "record", "accepted").Val())
	}
	require.EqualValues(t, 1, offer("b:1", "o", "c"))
	for range 2 {
		require.EqualValues(t, 1, offer("b:1", "o", ""), "it is withdrawn")
	}
	require.EqualValues(t, 0, accept("c:1", "o", 1))
	require.EqualValues(t, 1, offer("b:1", "r", "c"))
	require.EqualValues(t, 1, accept("c:1", "r", 0), "declined before it is accepted")
	require.EqualValues(t, 0, accept("c:1", "r", 1), "which comes late")
	require.EqualValues(t, 1, offer("b:1", "p", "c"))
	require.EqualValues(t, 1, accept("c:1", "p", 1))
	require.NoError(t, rdb.Rename(ctx, "lock", "old").Err())
	require.NoError(t, rdb.HSet(ctx, "lock", "c:1", 1).Err())
	require.EqualValues(t, 2, accept("c:1", "p", 0), "it has the lock already")
	require.EqualValues(t, 1, status(begin("c:1", 7)))
	require.Equal(t, int64(6), rdb.HLen(ctx, "record").Val(), "no offer is left")
	require.Positive(t, rdb.PTTL(ctx, "record").Val())
	require.EqualValues(t, -1, offer("c:1", "q", "a"), "of a term before, of the same holder")
	require.Equal(t, int64(6), rdb.HLen(ctx, "record").Val())
}

// In a cluster, with a prefix, messages go by sharded pub/sub.
func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	for _, prefix := range []string{"", "app:"} {
		ts := newTerms(t)
		stand := func(id string) *running {
			return ts.standOn(locktest.NewClient(t, cl.Client(t), latchkey.WithKeyPrefix(prefix)), id)
		}
		a := stand("a")
		require.Equal(t, "a", ts.comes())
		b := stand("b")
		redistest.Until(t, "a candidate", func() bool { return b.client.Stats().Waiting == 1 })
		redistest.Until(t, "a transfer", func() bool { return a.Transfer(t.Context(), "b") == nil })
		require.Equal(t, "b", ts.comes())
		require.NoError(t, b.Resign(t.Context()))
		require.Equal(t, "a", ts.comes())
		b.stop(t)
		a.stop(t)
		seen, unfollow := follow(t, a.Election)
		require.Zero(t, locktest.Receive(t, "nobody", seen))
		unfollow()
	}
}
