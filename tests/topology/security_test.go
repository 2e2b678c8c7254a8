package topology

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/flight"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/once"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

const password = "s3cret-Passw0rd"

// documented returns the rules of docs/security.md, with prefix in place of
// app:.
func documented(t testing.TB, prefix string) redistest.Rights {
	t.Helper()
	rights, err := redistest.Documented(prefix)
	require.NoError(t, err)
	return rights
}

// tenant creates a user with the documented rights, and more.
func tenant(t testing.TB, s *redistest.Server, prefix string, more ...string) {
	t.Helper()
	rules := append(documented(t, prefix).Usual(), more...)
	s.Do(t, append([]string{"ACL", "SETUSER", strings.TrimSuffix(prefix, ":"), "reset", "on", ">" + password}, rules...)...)
}

func as(prefix string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = strings.TrimSuffix(prefix, ":"), password }
}

func TestACL(t *testing.T) {
	s := redistest.Start(t)
	tenant(t, s, "app:")
	connect := func(t testing.TB) redis.UniversalClient { return s.Client(t, as("app:")) }
	kinds := []string{"fenced", "fair", "write lock", "read lock"}
	if long {
		kinds = append(kinds, "rlock")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			locktest.RunOn(t, connect, locks[kind].new, append(locks[kind].traits, locktest.Named("app:"))...)
		})
	}
	t.Run("objects", func(t *testing.T) {
		observer := latchkey.Observer{ChannelDenied: func(channel string, err error) { t.Errorf("denied: %s: %v", channel, err) }}
		a := newClient(t, connect(t), latchkey.WithKeyPrefix("app:"), latchkey.WithObserver(observer))
		b := newClient(t, connect(t), latchkey.WithKeyPrefix("app:"), latchkey.WithObserver(observer))
		for kind := range objects {
			handsOn(t, kind, a, b, kind)
		}
		latch := countdownlatch.New(a, "latch")
		_, err := latch.TrySetCount(t.Context(), 1)
		require.NoError(t, err)
		opened := countdownlatch.New(b, "latch").AwaitAsync(t.Context())
		waiting(t, b, 1)
		require.NoError(t, latch.CountDown(t.Context()))
		require.NoError(t, <-opened)
		h, err := rlock.New(a, "labelled").Lock(t.Context(), latchkey.Label("me"))
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		info, err := a.Info(t.Context(), "labelled")
		require.NoError(t, err)
		require.Equal(t, "me", info.Holders[0].Label)
		require.NoError(t, h.Unlock(t.Context()))
		at := time.UnixMilli(1_800_000_000_000)
		for _, opts := range [][]once.Option{nil, {once.NoOverlap()}} {
			job := once.New(a, "job", opts...)
			ran, err := job.Do(t.Context(), at.Add(time.Duration(len(opts))*time.Minute), func(context.Context) error { return nil })
			require.NoError(t, err)
			require.True(t, ran)
			runs, err := job.Runs(t.Context(), 10)
			require.NoError(t, err)
			require.Len(t, runs, 1+len(opts))
		}
		transfer(t, a, b)
		for _, c := range []*latchkey.Client{a, b} {
			v, _, err := flight.Do(t.Context(), c, "report", func(context.Context) (int, error) { return 1, nil })
			require.NoError(t, err)
			require.Equal(t, 1, v)
		}
		require.NoError(t, flight.Forget(t.Context(), a, "report"))
		for i, c := range []*latchkey.Client{a, b} {
			reply, replayed, err := idem.New(c).Do(t.Context(), "ann", "key", nil, func(context.Context) ([]byte, bool) { return []byte("1"), true })
			require.NoError(t, err)
			require.Equal(t, "1", string(reply))
			require.Equal(t, i > 0, replayed)
		}
		group := multilock.NewGroup(a, "group", "x", "y")
		h, err = group.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	})
	require.Empty(t, s.Denied(t, "app"))
}

// transfer makes a candidate of a the leader, and then one of b.
func transfer(t *testing.T, a, b *latchkey.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	begun := make(chan string)
	var all []*elect.Election
	for i, c := range []*latchkey.Client{a, b} {
		e := elect.New(c, "main", elect.Identity(strconv.Itoa(i)))
		all = append(all, e)
		runs.Go(func() {
			err := e.Run(ctx, func(ctx context.Context, _ elect.Term) error {
				begun <- e.Identity()
				<-ctx.Done()
				return nil
			})
			assert.ErrorIs(t, err, context.Canceled)
		})
		if i == 0 {
			require.Equal(t, "0", <-begun)
		}
	}
	redistest.Until(t, "a transfer", func() bool { return all[0].Transfer(ctx, "1") == nil })
	require.Equal(t, "1", <-begun)
	l, err := all[0].Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "1", l.Identity)
}

// Another database than 0 requires the right to select it.
func TestACLInADatabase(t *testing.T) {
	s := redistest.Start(t)
	tenant(t, s, "app:", "+select")
	client := func() *latchkey.Client {
		return newClient(t, s.Client(t, as("app:"), func(o *redis.Options) { o.DB = 3 }), latchkey.WithKeyPrefix("app:"))
	}
	a, b := client(), client()
	for kind := range objects {
		handsOn(t, kind, a, b, kind)
	}
	require.Empty(t, s.Denied(t, "app"))
}

// A user with read-only rights sees what others hold and can change nothing.
func TestLooker(t *testing.T) {
	if !redistest.Since(7, 0) {
		t.Skip("before Redis 7.0 who may read a key may write it, and all scripts may")
	}
	s := redistest.Start(t)
	s.Do(t, append([]string{"ACL", "SETUSER", "looker", "reset", "on", ">" + password}, documented(t, "app:").Look...)...)
	owner := newClient(t, s.Client(t), latchkey.WithKeyPrefix("app:"))
	looker := newClient(t, s.Client(t, as("looker")), latchkey.WithKeyPrefix("app:"))
	ctx := t.Context()

	for kind := range objects {
		take(t, kind, owner, kind)
		want, err := owner.Info(ctx, kind)
		require.NoError(t, err)
		got, err := looker.Info(ctx, kind)
		require.NoError(t, err)
		require.Equal(t, want.Kind, got.Kind)
		require.Equal(t, len(want.Holders), len(got.Holders), kind)
	}
	h, err := fairlock.New(owner, "fair lock").Lock(ctx, latchkey.Label("me"))
	require.NoError(t, err)
	fairlock.New(owner, "fair lock").LockAsync(ctx)

	locked, err := rlock.New(looker, "rlock").IsLocked(ctx)
	require.NoError(t, err)
	require.True(t, locked)
	locked, err = rwlock.New(looker, "write lock").WriteLock().IsLocked(ctx)
	require.NoError(t, err)
	require.True(t, locked)
	locked, err = fairlock.New(looker, "fair lock").IsLocked(ctx)
	require.NoError(t, err)
	require.True(t, locked)
	waiters, err := fairlock.New(looker, "fair lock").Waiters(ctx)
	require.NoError(t, err)
	require.Len(t, waiters, 1)
	_, err = semaphore.New(looker, "semaphore").AvailablePermits(ctx)
	require.NoError(t, err)
	_, err = countdownlatch.New(looker, "latch").Count(ctx)
	require.NoError(t, err)
	locked, err = multilock.NewGroup(looker, "group", "x").IsLocked(ctx)
	require.NoError(t, err)
	require.False(t, locked)

	_, err = rlock.New(looker, "free").TryLock(ctx)
	require.True(t, redis.HasErrorPrefix(err, "NOPERM"), "%v", err)
	_, err = fairlock.New(looker, "fair lock").ForceUnlock(ctx)
	require.ErrorContains(t, err, "NOPERM")
	require.NoError(t, h.Unlock(ctx))
}

// The least rights on a cluster, with confirmation by replicas.
func TestACLOnACluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	for _, s := range cl.Nodes {
		tenant(t, s, "app:", append(documented(t, "app:").Cluster, "+wait")...)
	}
	client := func(opts ...latchkey.Option) *latchkey.Client {
		rdb := cl.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", password })
		return newClient(t, rdb, append(opts, latchkey.WithKeyPrefix("app:"))...)
	}
	a, b := client(), client()
	for kind := range objects {
		handsOn(t, kind, a, b, kind)
	}
	_, err := rlock.New(client(latchkey.WithReplicaAck(1, 50*time.Millisecond)), "a").TryLock(t.Context())
	notReplicated(t, err)
	for _, s := range cl.Nodes {
		require.Empty(t, s.Denied(t, "app"))
	}
}

// With the least rights and its own, Check finds nothing wrong.
func TestCheckOfTheLeastRights(t *testing.T) {
	s := redistest.Start(t)
	for name, more := range map[string][]string{"app:": documented(t, "app:").Check, "bare:": nil} {
		tenant(t, s, name, more...)
		report, err := newClient(t, s.Client(t, as(name)), latchkey.WithKeyPrefix(name)).Check(t.Context())
		require.NoError(t, err)
		told := map[string]latchkey.Level{}
		for _, f := range report.Findings {
			told[f.Name] = max(told[f.Name], f.Level)
		}
		require.Equal(t, latchkey.LevelOK, told["rights"], "%+v", report.Findings)
		require.Equal(t, latchkey.LevelOK, told["pubsub"], "%+v", report.Findings)
		require.Contains(t, told, map[bool]string{true: "version", false: "server"}[more != nil], "what it may not ask for")
	}
	require.Empty(t, s.Denied(t, "app"))
}

// Two tenants use the same names and do not affect each other.
func TestTenants(t *testing.T) {
	s := redistest.Start(t)
	tenant(t, s, "one:")
	tenant(t, s, "two:")
	one := newClient(t, s.Client(t, as("one:")), latchkey.WithKeyPrefix("one:"))
	two := newClient(t, s.Client(t, as("two:")), latchkey.WithKeyPrefix("two:"))
	intruder := newClient(t, s.Client(t, as("two:")), latchkey.WithKeyPrefix("one:"))
	for kind := range objects {
		t.Run(kind, func(t *testing.T) {
			mine := take(t, kind, one, kind)
			theirs := take(t, kind, two, kind) // at the same time
			_, err := objects[kind](t.Context(), intruder, kind)
			require.ErrorContains(t, err, "permission", "of the wrong user")
			next := waitFor(t.Context(), kind, one, kind)
			waiting(t, one, 1)
			evals := s.Commands(t)
			for range 5 { // their releases wake nobody here
				theirs.give(t)
				theirs = take(t, kind, two, kind)
			}
			theirs.give(t)
			if kind != "spinning" {
				require.LessOrEqual(t, s.Commands(t)-evals, int64(40), "commands for five releases of somebody else's")
			}
			mine.give(t)
			receive(t, next).give(t)
		})
	}
}

// No error and no line of the log contains a password.
func TestNoSecrets(t *testing.T) {
	s := redistest.Start(t)
	tenant(t, s, "app:", "-evalsha")
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	use := func(f func(*redis.Options)) string {
		c := latchkey.New(s.Client(t, f), latchkey.WithLogger(logger), latchkey.WithKeyPrefix("app:"))
		_, err := rlock.New(c, "a").TryLock(t.Context(), latchkey.Wait(200*time.Millisecond))
		require.Error(t, err)
		text := err.Error()
		if err := c.Close(); err != nil {
			text += err.Error()
		}
		return text
	}
	for what, f := range map[string]func(*redis.Options){
		"wrong password": func(o *redis.Options) { o.Username, o.Password = "app", "wrong "+password },
		"unknown user":   func(o *redis.Options) { o.Username, o.Password = "nobody", password },
		"no right":       as("app:"),
		"nobody there":   func(o *redis.Options) { o.Addr, o.Username, o.Password = "127.0.0.1:1", "app", password },
	} {
		require.NotContains(t, use(f), password, what)
	}
	require.NotContains(t, log.String(), password)
}

func TestTLS(t *testing.T) {
	s := redistest.StartTLS(t)
	a, b := newClient(t, s.Client(t, s.Over(true))), newClient(t, s.Client(t, s.Over(true)))
	for kind := range objects {
		handsOn(t, kind, a, b, kind)
	}
	stranger := rlock.New(newClient(t, s.Client(t, s.Over(false))), "a")
	redistest.Until(t, "the server's word about the certificate", func() bool { // who writes before it comes hears of a reset only
		start := time.Now()
		_, err := stranger.TryLock(t.Context())
		require.Error(t, err)
		require.Less(t, time.Since(start), 5*time.Second)
		return strings.Contains(err.Error(), "certificate")
	})
	// A server whose certificate is not accepted is sent nothing.
	wary := s.Client(t, s.Over(true), func(o *redis.Options) {
		o.TLSConfig = o.TLSConfig.Clone()
		o.TLSConfig.RootCAs = x509.NewCertPool()
	})
	_, err := rlock.New(newClient(t, wary), "a").TryLock(t.Context())
	var refused *latchkey.Error
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "certificate")
	require.False(t, refused.MaybeApplied(), "%v", err)
	h, err := rlock.New(a, "a").TryLock(t.Context())
	require.NoError(t, err, "nothing was taken by one without a certificate")
	require.NoError(t, h.Unlock(t.Context()))
}
