package rlock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// javaOwner is a thread of a Java service, as Redis shows it.
const javaOwner = "7e0f3d5c-1a55-4f1e-9d6a-2f0c6f0b9a11:1"

// newClient returns a client with a connection of its own.
func newClient(t testing.TB, s *redistest.Server, opts ...latchkey.Option) *latchkey.Client {
	t.Helper()
	c := latchkey.New(redistest.User(t, s.Client(t)), opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// untilWaiting waits until a call of c sleeps and can receive wake-ups.
func untilWaiting(t testing.TB, c *latchkey.Client) {
	t.Helper()
	redistest.Until(t, "the waiter to listen", func() bool {
		s := c.Stats()
		return s.Waiting > 0 && s.Subscriptions > 0
	})
}

// A rawListener is a bare connection that is subscribed to everything.
type rawListener struct {
	t *testing.T
	net.Conn
	rdb *redis.Client
}

// listenRaw subscribes to all Redis channels without go-redis.
func listenRaw(t *testing.T, s *redistest.Server) *rawListener {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "PSUBSCRIBE *\r\n")
	require.NoError(t, err)
	l := &rawListener{t, conn, s.Client(t)}
	l.expect("*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n")
	return l
}

// expect reads exactly the bytes of want.
func (l *rawListener) expect(want string) {
	l.t.Helper()
	got := make([]byte, len(want))
	require.NoError(l.t, l.SetReadDeadline(time.Now().Add(10*time.Second)))
	n, err := io.ReadFull(l, got)
	require.NoError(l.t, err, "read %q, want %q", got[:n], want)
	require.Equal(l.t, want, string(got), "bytes to subscribers")
}

// hint reads exactly one message "0" on a Redis channel.
func (l *rawListener) hint(channel string) {
	l.t.Helper()
	l.expect(fmt.Sprintf("*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(channel), channel))
}

// silent checks that nothing has been published.
func (l *rawListener) silent() {
	l.t.Helper()
	require.NoError(l.t, l.rdb.Publish(l.t.Context(), "end", "end").Err())
	l.expect("*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$3\r\nend\r\n$3\r\nend\r\n")
}

// TestWireOfHeldAndReleasedLock checks what Redis stores and what Java
// receives.
func TestWireOfHeldAndReleasedLock(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	tests := []struct {
		prefix, name, key, channel string
		opts                       []rlock.Option
	}{
		{"", "foo", "foo", "redisson_lock__channel:{foo}", nil},
		{"", "a{b}", "a{b}", "redisson_lock__channel:a{b}", nil},
		{"", "{b}a", "{b}a", "redisson_lock__channel:{b}a", nil},
		{"", "a{b", "a{b", "redisson_lock__channel:a{b", nil}, // as Redisson does; see wire §1.2
		{"", "a}b", "a}b", "redisson_lock__channel:{a}b}", nil},
		{"app:", "foo", "app:foo", "redisson_lock__channel:{app:foo}", nil},
		{"{app}:", "foo", "{app}:foo", "redisson_lock__channel:{app}:foo", nil},
		{"", "fenced", "fenced", "redisson_lock__channel:{fenced}", []rlock.Option{rlock.Fenced()}},
		{"", "once", "once", "redisson_lock__channel:{once}", []rlock.Option{rlock.NonReentrant()}},
	}
	for _, tt := range tests {
		t.Run(tt.prefix+tt.name, func(t *testing.T) {
			ctx := t.Context()
			ear := listenRaw(t, s)
			c := newClient(t, s, latchkey.WithKeyPrefix(tt.prefix))
			l := rlock.New(c, tt.name, tt.opts...)
			h := locktest.MustLock(t, l)
			require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`, h.HolderID())
			require.Equal(t, c.ID()+":"+h.Holder().String(), h.HolderID())
			require.Equal(t, tt.name, h.Name(), "Name is as given")
			require.Equal(t, map[string]string{h.HolderID(): "1"}, rdb.HGetAll(ctx, tt.key).Val(), "the hash")
			require.InDelta(t, 30*time.Second, rdb.PTTL(ctx, tt.key).Val(), float64(2*time.Second), "PTTL")
			require.LessOrEqual(t, rdb.PTTL(ctx, tt.key).Val(), 30*time.Second, "PTTL")

			if len(tt.opts) == 0 || tt.name == "fenced" {
				nested := locktest.MustLock(t, heldBy{l, h})
				require.Equal(t, map[string]string{h.HolderID(): "2"}, rdb.HGetAll(ctx, tt.key).Val(), "the hash, nested")
				locktest.MustUnlock(t, nested)
				require.Equal(t, map[string]string{h.HolderID(): "1"}, rdb.HGetAll(ctx, tt.key).Val(), "the hash")
			}
			ear.silent()
			locktest.MustUnlock(t, h)
			ear.hint(tt.channel)
			ear.silent()
			require.Zero(t, rdb.Exists(ctx, tt.key).Val(), "the key after Unlock")

			locktest.MustLock(t, l)
			_, err := l.ForceUnlock(ctx)
			require.NoError(t, err)
			ear.hint(tt.channel)
			ear.silent()
			require.Zero(t, rdb.Exists(ctx, tt.key).Val(), "the key after ForceUnlock")
		})
	}
	keys := rdb.Keys(t.Context(), "*").Val()
	require.Equal(t, []string{"redisson_lock_token:{fenced}"}, keys, "what stays behind")
}

// A heldBy is a lock that is taken with a Hold's Context.
type heldBy struct {
	latchkey.Locker
	h *latchkey.Hold
}

func (l heldBy) Lock(_ context.Context, opts ...latchkey.LockOption) (*latchkey.Hold, error) {
	return l.Locker.Lock(l.h.Context(), opts...)
}

// TestWireMessage checks the bytes of wire §1.5 that a Java waiter receives.
func TestWireMessage(t *testing.T) {
	s := redistest.Start(t)
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer conn.Close()
	l := &rawListener{t, conn, s.Client(t)}
	_, err = io.WriteString(conn, "SUBSCRIBE redisson_lock__channel:{foo}\r\n")
	require.NoError(t, err)
	l.expect("*3\r\n$9\r\nsubscribe\r\n$28\r\nredisson_lock__channel:{foo}\r\n:1\r\n")
	locktest.MustUnlock(t, locktest.MustLock(t, rlock.New(newClient(t, s), "foo")))
	l.expect("*3\r\n$7\r\nmessage\r\n$28\r\nredisson_lock__channel:{foo}\r\n$1\r\n0\r\n")
}

// TestWireRenewal checks renewals to 30 s, every 10 s, to the millisecond.
func TestWireRenewal(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "foo")
		locktest.MustUnlock(t, locktest.MustLock(t, l)) // loads the scripts
		h := locktest.MustLock(t, l)
		other := env.Client()
		for i := range 30 {
			sent := env.Commands("")
			env.Advance(10*time.Second - time.Millisecond)
			require.Equal(t, 20*time.Second+time.Millisecond, other.PTTL(t.Context(), "foo").Val(), "before renewal %d", i+1)
			env.Advance(time.Millisecond)
			require.Equal(t, 30*time.Second, other.PTTL(t.Context(), "foo").Val(), "at renewal %d", i+1)
			want := int64(3) // one script, and the two PTTL of this test
			if i == 0 {
				want++ // and its text
			}
			require.Equal(t, want, env.Commands("")-sent, "commands in the period of renewal %d", i+1)
			require.Equal(t, map[string]string{h.HolderID(): "1"}, other.HGetAll(t.Context(), "foo").Val())
		}
		locktest.MustUnlock(t, h)
	})
}

// TestWireJavaHolderBlocksUs checks that Java's hash keeps Go out and that
// Java's message lets Go in.
func TestWireJavaHolderBlocksUs(t *testing.T) {
	s := redistest.Start(t)
	java := s.Client(t)
	c := newClient(t, s)
	releases := map[string][]any{
		"HDEL": {"HDEL", "foo", javaOwner},
		"DEL":  {"DEL", "foo"},
	}
	for release, cmd := range releases {
		t.Run(release, func(t *testing.T) {
			ctx := t.Context()
			l := rlock.New(c, "foo")
			var took []time.Duration
			for range 9 {
				require.NoError(t, java.HSet(ctx, "foo", javaOwner, 1).Err())
				require.NoError(t, java.PExpire(ctx, "foo", 30*time.Second).Err())
				_, err := l.TryLock(ctx)
				require.ErrorIs(t, err, latchkey.ErrNotAcquired)
				in := make(chan time.Time, 1)
				var h *latchkey.Hold
				go func() {
					h, err = l.Lock(ctx)
					in <- time.Now()
				}()
				untilWaiting(t, c)
				require.Equal(t, map[string]string{javaOwner: "1"}, java.HGetAll(ctx, "foo").Val(), "a waiter leaves nothing in Redis")
				freed := time.Now()
				_, err2 := java.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Do(ctx, cmd...)
					p.Publish(ctx, "redisson_lock__channel:{foo}", "0")
					return nil
				})
				require.NoError(t, err2)
				took = append(took, (<-in).Sub(freed))
				require.NoError(t, err)
				locktest.MustUnlock(t, h)
			}
			slices.Sort(took)
			require.Less(t, took[len(took)/2], 50*time.Millisecond, "from Java's release to our grant, the middle of %v", took)
			require.Less(t, took[len(took)-1], time.Second, "from Java's release to our grant, the longest of %v", took)
		})
	}
}

// TestWireWeBlockJava checks that Java's acquire (wire §3.2) is refused by Go's
// hash and that its waiter receives Go's message.
func TestWireWeBlockJava(t *testing.T) {
	s := redistest.Start(t)
	java := s.Client(t)
	acquire := func() any {
		v, err := java.Eval(t.Context(), `
			if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
				redis.call('hincrby', KEYS[1], ARGV[2], 1)
				redis.call('pexpire', KEYS[1], ARGV[1])
				return 'mine'
			end
			return redis.call('pttl', KEYS[1])`, []string{"foo"}, 30000, javaOwner).Result()
		require.NoError(t, err)
		return v
	}
	c := newClient(t, s)
	l := rlock.New(c, "foo")
	h := locktest.MustLock(t, l)
	left, ok := acquire().(int64)
	require.True(t, ok, "Java's acquire, while we hold")
	require.InDelta(t, 30000, left, 2000, "the lease that Java is told")
	sub := java.Subscribe(t.Context(), "redisson_lock__channel:{foo}")
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	locktest.MustUnlock(t, h)
	m, err := sub.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0", m.Payload)
	require.Equal(t, "mine", acquire(), "Java's acquire, after our Unlock")
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, latchkey.ErrNotAcquired)
	locked, err := l.IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, locked, "IsLocked by Java")
	require.Equal(t, "mine", acquire(), "Java's re-entry")
	require.Equal(t, map[string]string{javaOwner: "2"}, java.HGetAll(t.Context(), "foo").Val())
}

// TestWireJavaHolderDies has a hash that nobody frees, and no message.
func TestWireJavaHolderDies(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		java := env.Client()
		java.HSet(t.Context(), "foo", javaOwner, 1)
		java.PExpire(t.Context(), "foo", 30*time.Second)
		start := time.Now()
		locktest.MustUnlock(t, locktest.MustLock(t, rlock.New(c, "foo")))
		require.GreaterOrEqual(t, time.Since(start), 30*time.Second, "time waited")
		require.LessOrEqual(t, time.Since(start), 30*time.Second+2*time.Millisecond, "time waited")
	})
}

func TestWireFencedTokens(t *testing.T) {
	const counter = "redisson_lock_token:{foo}"
	s := redistest.Start(t)
	rdb := s.Client(t)
	ctx := t.Context()
	l := rlock.New(newClient(t, s), "foo", rlock.Fenced())
	other := rlock.New(newClient(t, s), "foo", rlock.Fenced())

	last, err := l.Token(ctx)
	require.NoError(t, err)
	require.Zero(t, last, "Token before the first")
	grows := func(h *latchkey.Hold, when string) {
		t.Helper()
		require.Greater(t, h.Token(), last, "token %s", when)
		last = h.Token()
		require.Equal(t, strconv.FormatInt(last, 10), rdb.Get(ctx, counter).Val(), "the counter %s", when)
		require.EqualValues(t, -1, rdb.PTTL(ctx, counter).Val(), "the counter never expires")
		got, err := other.Token(ctx)
		require.NoError(t, err)
		require.Equal(t, last, got, "Token %s", when)
	}
	for range 5 {
		h := locktest.MustLock(t, l)
		grows(h, "of an acquisition")
		nested := locktest.MustLock(t, heldBy{l, h})
		grows(nested, "of a re-entry")
		_, err := other.TryLock(ctx)
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		require.Equal(t, strconv.FormatInt(last, 10), rdb.Get(ctx, counter).Val(), "a refusal takes none")
		locktest.MustUnlock(t, nested)
		locktest.MustUnlock(t, h)
		h = locktest.MustLock(t, other)
		grows(h, "of another client")
		locktest.MustUnlock(t, h)
	}

	// Java goes on from ours, and we go on from Java's, even from one ahead of
	// the clock.
	java, err := rdb.Incr(ctx, counter).Result()
	require.NoError(t, err)
	require.Equal(t, last+1, java, "Java's token")
	last = java
	h := locktest.MustLock(t, l)
	grows(h, "after Java's")
	locktest.MustUnlock(t, h)
	ahead, err := rdb.IncrBy(ctx, counter, int64(time.Hour/time.Microsecond)).Result()
	require.NoError(t, err)
	h = locktest.MustLock(t, l)
	require.Equal(t, ahead+1, h.Token(), "token after one ahead of the clock")
	locktest.MustUnlock(t, h)
	require.NoError(t, rdb.Set(ctx, counter, last, 0).Err())

	// Over a loss of all data.
	for range 3 {
		s.FlushAll(t)
		h := locktest.MustLock(t, l)
		grows(h, "after FLUSHALL")
		locktest.MustUnlock(t, h)
	}

	// An unfenced lock of the same name gives none and takes none.
	h = locktest.MustLock(t, rlock.New(newClient(t, s), "foo"))
	require.Zero(t, h.Token(), "token of an unfenced lock")
	require.Equal(t, strconv.FormatInt(last, 10), rdb.Get(ctx, counter).Val())
	locktest.MustUnlock(t, h)
}

func TestWireFencedTokenWithPrefix(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, s, latchkey.WithKeyPrefix("app:"))
	for name, counter := range map[string]string{
		"foo":  "redisson_lock_token:{app:foo}",
		"a{b}": "redisson_lock_token:app:a{b}",
	} {
		h := locktest.MustLock(t, rlock.New(c, name, rlock.Fenced()))
		require.Equal(t, strconv.FormatInt(h.Token(), 10), rdb.Get(t.Context(), counter).Val(), "%s", counter)
		locktest.MustUnlock(t, h)
	}
}

func TestWireLabel(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	c := newClient(t, s, latchkey.WithKeyPrefix("app:"))
	h := locktest.MustLock(t, rlock.New(c, "foo"), latchkey.Label("host-1 worker 3"))
	key := "latchkey_label:{app:foo}:" + h.HolderID()
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`^\d{13} %d %s host-1 worker 3$`, os.Getpid(), regexp.QuoteMeta(host)), rdb.Get(t.Context(), key).Val(), "since, process, host, label")
	require.InDelta(t, 30*time.Second, rdb.PTTL(t.Context(), key).Val(), float64(2*time.Second), "it expires")
	require.Equal(t, map[string]string{h.HolderID(): "1"}, rdb.HGetAll(t.Context(), "app:foo").Val(), "it never stands in the hash")
	locktest.MustUnlock(t, h)
	require.Empty(t, rdb.Keys(t.Context(), "*").Val(), "after Unlock")
}

func TestWireSpinPublishesNothing(t *testing.T) {
	s := redistest.Start(t)
	ear := listenRaw(t, s)
	c := newClient(t, s)
	l := rlock.New(c, "foo", rlock.Spin(rlock.Backoff{}))
	h := locktest.MustLock(t, l)
	require.Equal(t, map[string]string{h.HolderID(): "1"}, s.Client(t).HGetAll(t.Context(), "foo").Val(), "the hash")
	done := make(chan error, 1)
	go func() {
		h, err := l.Lock(t.Context())
		if err == nil {
			err = h.Unlock(t.Context())
		}
		done <- err
	}()
	redistest.Until(t, "the waiter", func() bool { return c.Stats().Waiting == 1 })
	require.Zero(t, c.Stats().Subscriptions, "Subscriptions")
	locktest.MustUnlock(t, h)
	require.NoError(t, <-done)
	locktest.MustLock(t, l)
	_, err := l.ForceUnlock(t.Context())
	require.NoError(t, err)
	ear.silent()
}

// TestWireFreeLockCostsTwoCommands: one command takes the lock, one gives it
// back.
func TestWireFreeLockCostsTwoCommands(t *testing.T) {
	s := redistest.Start(t)
	for form, opts := range map[string][]rlock.Option{
		"plain": nil, "fenced": {rlock.Fenced()}, "spin": {rlock.Spin(rlock.Backoff{})}, "non-reentrant": {rlock.NonReentrant()},
	} {
		l := rlock.New(newClient(t, s), form, opts...)
		locktest.MustUnlock(t, locktest.MustLock(t, l)) // loads the scripts
		m := s.Monitor(t)
		for range 3 {
			locktest.MustUnlock(t, locktest.MustLock(t, l))
		}
		var sent []string
		for _, line := range m.Lines() {
			if !line.Script() {
				sent = append(sent, line.Name())
			}
		}
		require.Equal(t, slices.Repeat([]string{"evalsha"}, 6), sent, "%s: commands for three pairs", form)
		m.Stop()
	}
}

// TestWireWaitersCostOneSubscription checks that waiters cost one subscription
// and one command for each release, however many they are.
func TestWireWaitersCostOneSubscription(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		const waiters = 100
		holder := latchkey.New(env.Client())
		defer holder.Close()
		h := locktest.MustLock(t, rlock.New(holder, "foo"))
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "foo")
		_, err := l.TryLock(t.Context()) // loads the script
		require.ErrorIs(t, err, latchkey.ErrNotAcquired)
		sent := env.Link(env.Redis).Commands("evalsha")
		done := make(chan error, waiters)
		for range waiters {
			go func() {
				done <- latchkey.Do(t.Context(), l, func(context.Context) error { return nil })
			}()
		}
		env.Advance(0)
		require.Equal(t, waiters, c.Stats().Waiting, "Waiting")
		require.Equal(t, 2, c.Stats().Subscriptions, "wake-ups, and what the client is given")
		require.EqualValues(t, 2, env.Link(env.Redis).Commands("evalsha")-sent, "the head asks, subscribes and asks again")
		locktest.MustUnlock(t, h)
		for range waiters {
			require.NoError(t, <-done)
		}
		scripts := env.Link(env.Redis).Commands("evalsha") - sent
		require.LessOrEqual(t, scripts, int64(2+2*waiters), "scripts: one to take and one to give back each")
		require.EqualValues(t, 1, env.Link(env.Redis).Commands("subscribe"), "subscriptions")
	})
}
