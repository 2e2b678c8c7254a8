package latchkey_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/engine"
	inspects "github.com/latchkey-go/latchkey/internal/inspect"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A graphScene has a client that publishes what waits, and another that has "b".
type graphScene struct {
	*redistest.Env
	t      *testing.T
	client *latchkey.Client
	other  *latchkey.Hold
	sent   atomic.Int64 // commands about what waits
	all    sync.WaitGroup
}

func newGraphScene(t *testing.T, b *redistest.Env, opts ...latchkey.Option) *graphScene {
	g := &graphScene{Env: b, t: t, client: newClient(t, b.Client(), opts...)}
	g.other = locked(t, rlock.New(newClient(t, b.Client()), "b"))
	b.OnCommand(func(args []string) {
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "latchkey_waits:") }) {
			g.sent.Add(1)
		}
	})
	return g
}

// wait waits for l with ctx, on a goroutine of its own.
func (g *graphScene) wait(ctx context.Context, l latchkey.Locker, opts ...latchkey.LockOption) {
	g.all.Go(func() {
		if h, err := l.Lock(ctx, opts...); err == nil {
			_ = h.Unlock(context.WithoutCancel(ctx))
		}
	})
	synctest.Wait()
}

// published returns what is published, each as "<key of what is held> <what is waited for>".
func (g *graphScene) published() (all []string) {
	for _, key := range g.Mini.Keys() {
		if rest, ok := strings.CutPrefix(key, "latchkey_waits:"); ok {
			text, err := g.Mini.Get(key)
			require.NoError(g.t, err)
			name, holder, _ := strings.Cut(rest, "}:")
			name += "}"
			if strings.HasSuffix(holder, ":write") {
				name += " to write"
			}
			for _, w := range engine.ParseWaited(text) {
				name += fmt.Sprintf(" %s %s", w.Kind, w.Key)
			}
			all = append(all, name)
		}
	}
	return all
}

// What a caller waits for that holds something is published after a second, is kept
// while it waits, and is gone when it does not wait any more.
func TestWaitGraph(t *testing.T) {
	for name, end := range map[string]func(g *graphScene, cancel func()){
		"granted":  func(g *graphScene, _ func()) { require.NoError(g.t, g.other.Unlock(g.t.Context())) },
		"canceled": func(_ *graphScene, cancel func()) { cancel() },
		"refused":  func(g *graphScene, _ func()) { g.Advance(10 * time.Second) },
		"closed":   func(g *graphScene, _ func()) { require.NoError(g.t, g.client.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				g := newGraphScene(t, b, latchkey.WithWaitGraph())
				a := locked(t, rlock.New(g.client, "a"))
				ctx, cancel := context.WithCancel(a.Context())
				defer cancel()
				g.wait(ctx, rlock.New(g.client, "b"), latchkey.Wait(20*time.Second))
				g.Advance(900 * time.Millisecond)
				require.Zero(t, g.sent.Load())
				g.Advance(400 * time.Millisecond)
				require.Equal(t, []string{"{a} rlock b"}, g.published())
				text, err := g.Mini.Get("latchkey_waits:{a}:" + a.HolderID())
				require.NoError(t, err)
				require.InDelta(t, 1300*time.Millisecond, time.Since(engine.ParseWaited(text)[0].Since), float64(100*time.Millisecond))
				g.Advance(9 * time.Second)
				require.Equal(t, []string{"{a} rlock b"}, g.published())
				require.LessOrEqual(t, g.sent.Load(), int64(11), "once a second")
				end(g, cancel)
				g.Advance(300 * time.Millisecond)
				require.Empty(t, g.published())
				g.all.Wait()
				sent := g.sent.Load()
				g.Advance(10 * time.Second)
				require.Equal(t, sent, g.sent.Load())
			})
		})
	}
}

// Without the option nothing is sent.
func TestWaitGraphOff(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		g := newGraphScene(t, b)
		a := locked(t, rlock.New(g.client, "a"))
		g.wait(a.Context(), rlock.New(g.client, "b"), latchkey.Wait(10*time.Second))
		g.Advance(15 * time.Second)
		g.all.Wait()
		require.Zero(t, g.sent.Load())
	})
}

// What a dead client has published is gone soon.
func TestWaitGraphOfTheDead(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		g := newGraphScene(t, b)
		g.client = newClient(t, rdb, latchkey.WithWaitGraph())
		a := locked(t, rlock.New(g.client, "a"))
		ctx, cancel := context.WithCancel(a.Context())
		defer cancel()
		g.wait(ctx, rlock.New(g.client, "b"))
		g.Advance(2 * time.Second)
		require.NotEmpty(t, g.published())
		b.Partition(rdb)
		g.Advance(3100 * time.Millisecond)
		require.Empty(t, g.published())
		b.Heal(rdb)
		cancel()
		g.all.Wait()
	})
}

// What a caller holds, its context says.
func TestWaitGraphKnowsByTheContext(t *testing.T) {
	both := []string{"{p:a} rlock p:b", "{p:x} rlock p:b"}
	for name, test := range map[string]struct {
		hold func(t *testing.T, c *latchkey.Client, other *latchkey.Client) context.Context
		want []string
	}{
		"nothing": {func(t *testing.T, _, _ *latchkey.Client) context.Context { return t.Context() }, nil},
		"outer ctx": {func(t *testing.T, c, _ *latchkey.Client) context.Context {
			locked(t, rlock.New(c, "a"))
			return t.Context()
		}, nil},
		"nested": {func(t *testing.T, c, _ *latchkey.Client) context.Context {
			h, err := rwlock.New(c, "x").WriteLock().Lock(locked(t, fairlock.New(c, "a")).Context())
			require.NoError(t, err)
			return latchkey.WithHolder(h.Context())
		}, []string{"{p:a} rlock p:b", "{p:x} to write rlock p:b"}},
		"numbered": {func(t *testing.T, c, _ *latchkey.Client) context.Context {
			ctx := latchkey.WithHolder(t.Context())
			_, err := rlock.New(c, "a").Lock(ctx)
			require.NoError(t, err)
			_, err = rwlock.New(c, "x").ReadLock().Lock(ctx)
			require.NoError(t, err)
			locked(t, rlock.New(c, "y"))
			return ctx
		}, both},
		"multi": {func(t *testing.T, c, _ *latchkey.Client) context.Context {
			return locked(t, multilock.New(rlock.New(c, "a"), rlock.New(c, "x"))).Context()
		}, both},
		"given back": {func(t *testing.T, c, _ *latchkey.Client) context.Context {
			h := locked(t, rlock.New(c, "a"))
			ctx := context.WithoutCancel(h.Context())
			require.NoError(t, h.Unlock(ctx))
			return ctx
		}, nil},
		"another client's": {func(t *testing.T, _, other *latchkey.Client) context.Context {
			return locked(t, rlock.New(other, "a")).Context()
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
				g := newGraphScene(t, b, latchkey.WithWaitGraph(), latchkey.WithKeyPrefix("p:"))
				other := newClient(t, b.Client())
				locked(t, rlock.New(other, "p:b"))
				g.wait(test.hold(t, g.client, other), rlock.New(g.client, "b"), latchkey.Wait(5*time.Second))
				g.Advance(2 * time.Second)
				require.Equal(t, test.want, g.published())
				g.Advance(5 * time.Second)
				require.Empty(t, g.published())
				g.all.Wait()
			})
		})
	}
}

// Goroutines that share a hold may wait for several things, whatever their names.
func TestWaitGraphOfSeveralWaits(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		g := newGraphScene(t, b, latchkey.WithWaitGraph())
		a := locked(t, rlock.New(g.client, "a"))
		ctx, cancel := context.WithCancel(a.Context())
		defer cancel()
		other := newClient(t, b.Client())
		for _, name := range []string{"\xff<\n", strings.Repeat("long", 1000), "c"} {
			locked(t, rlock.New(other, name))
			g.wait(ctx, rlock.New(g.client, name))
			g.wait(ctx, rlock.New(g.client, name))
		}
		latch := countdownlatch.New(other, "latch")
		_, err := latch.TrySetCount(ctx, 1)
		require.NoError(t, err)
		g.all.Go(func() { _ = countdownlatch.New(g.client, "latch").Await(ctx) })
		g.Advance(2 * time.Second)
		text, err := g.Mini.Get("latchkey_waits:{a}:" + a.HolderID())
		require.NoError(t, err)
		var seen []string
		for _, w := range engine.ParseWaited(text) {
			seen = append(seen, w.Key)
		}
		slices.Sort(seen)
		require.Equal(t, []string{"c", "latch", "\xff<\n"}, seen)
		require.Less(t, len(text), 2048)
		cancel()
		g.all.Wait()
	})
}

// In a cluster each key is in the slot of what is held, and nothing more is needed than
// the rights of docs/security.md.
func TestWaitGraphInACluster(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t, 3)
	c := newClient(t, cl.Client(t), latchkey.WithWaitGraph())
	locked(t, rlock.New(newClient(t, cl.Client(t)), "b"))
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var held []*latchkey.Hold
	for _, name := range []string{"a", "x", "y", "{z}"} {
		h, err := rlock.New(c, name).Lock(ctx)
		require.NoError(t, err)
		ctx, held = h.Context(), append(held, h)
	}
	all.Go(func() { _, _ = rlock.New(c, "b").Lock(ctx) })
	published := func() (n int) {
		for _, h := range held {
			waits, err := inspects.Waits(t.Context(), c, h.Name(), []string{h.HolderID()})
			require.NoError(t, err)
			for _, w := range waits[h.HolderID()] {
				require.Equal(t, "b", w.Key)
				n++
			}
		}
		return n
	}
	redistest.Until(t, "all to be published", func() bool { return published() == len(held) })
	cancel()
	redistest.Until(t, "all to be removed", func() bool { return published() == 0 })
}

// A server that does not allow it is told to the logger, once.
func TestWaitGraphDenied(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		s := &slowWaits{}
		rdb := b.Client()
		rdb.AddHook(denied{})
		g := newGraphScene(t, b)
		g.client = newClient(t, rdb, latchkey.WithWaitGraph(), latchkey.WithLogger(slog.New(slog.NewTextHandler(s, nil))))
		a := locked(t, rlock.New(g.client, "a"))
		g.wait(a.Context(), rlock.New(g.client, "b"), latchkey.Wait(10*time.Second))
		g.Advance(12 * time.Second)
		g.all.Wait()
		require.Equal(t, 1, strings.Count(s.logged(), "is not published"), s.logged())
	})
}

// denied is a hook that refuses what is published of waits.
type denied struct{}

func (denied) DialHook(next redis.DialHook) redis.DialHook { return next }

func (denied) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (denied) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if strings.HasPrefix(fmt.Sprint(arg), "latchkey_waits:") {
				err := serverErr("NOPERM No permissions to access a key")
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}
