package plain

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.LeakOptions()...) }

// idle returns a run of a real server in which nobody does anything.
func idle(t *testing.T, kind string) (*run, *name, context.Context) {
	s := Start(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{Load: s, cfg: Config{Kinds: []string{kind}}, rdb: s.server.Client(t), start: time.Now(), cancel: cancel}
	r.makeNames(rand.New(rand.NewPCG(1, 1)))
	return r, r.names[0], ctx
}

// failure returns the first line of what a run has found.
func failure(t *testing.T, r *run) string {
	require.NotEmpty(t, r.failures)
	first, _, _ := strings.Cut(r.failures[0], "\n")
	return first
}

func TestSeesWhatStands(t *testing.T) {
	r, n, ctx := idle(t, "fenced")
	done := make(chan struct{})
	go r.tick(done)
	defer close(done)
	r.rdb.HSet(ctx, n.key, "somebody", 1)
	r.rdb.PExpire(ctx, n.key, 20*time.Millisecond)
	r.rdb.Set(ctx, "redisson_lock_token:{"+n.key+"}", 7, 0)
	r.nothingStands(ctx)
	require.Empty(t, r.failures, "what is gone in time, and a counter")
	n.note("somebody took it")
	r.rdb.Set(ctx, "latchkey_label:{"+n.key+"}:somebody", "x", time.Minute)
	r.nothingStands(ctx)
	require.Contains(t, failure(t, r), "nobody holds or waits")
	require.Contains(t, r.failures[0], "somebody took it")
}

func TestSeesNoExpiry(t *testing.T) {
	r, n, ctx := idle(t, "rlock")
	r.rdb.HSet(ctx, n.key, "somebody", 1)
	done := make(chan struct{})
	defer close(done)
	go r.watch(ctx, done)
	<-ctx.Done()
	require.Contains(t, failure(t, r), "has no expiry")
}

func TestSeesWhoWaitsForAFreeName(t *testing.T) {
	r, n, ctx := idle(t, "rlock")
	n.begin()
	r.clock.Add(int64(time.Second))
	done := make(chan struct{})
	defer close(done)
	go r.watch(ctx, done)
	<-ctx.Done()
	require.Contains(t, failure(t, r), "is free")
}

func TestSeesTwoHolders(t *testing.T) {
	long := func() time.Duration { return time.Second }
	ended := func() time.Duration { return 0 }
	for _, tt := range []struct {
		what string
		a, b belief
		bad  bool
	}{
		{"two", belief{who: "a", left: long}, belief{who: "b", left: long}, true},
		{"one who has lost it", belief{who: "a", left: ended}, belief{who: "b", left: long}, false},
		{"one who has lost it at once", belief{who: "a", left: long}, belief{who: "b", left: ended}, false},
		{"one twice", belief{who: "a", left: long}, belief{who: "a", left: long}, false},
		{"readers", belief{who: "a", read: true, left: long}, belief{who: "b", read: true, left: long}, false},
		{"a reader and a writer", belief{who: "a", read: true, left: long}, belief{who: "b", left: long}, true},
		{"values", belief{who: "a", part: 1, left: long}, belief{who: "b", part: 6, left: long}, false},
		{"a value", belief{who: "a", part: 3, left: long}, belief{who: "b", part: 6, left: long}, true},
		{"permits", belief{who: "a", n: 1, left: long}, belief{who: "b", n: 2, left: long}, false},
		{"too many permits", belief{who: "a", n: 2, left: long}, belief{who: "b", n: 2, left: long}, true},
	} {
		t.Run(tt.what, func(t *testing.T) {
			r := &run{Load: &Load{}, cfg: Config{Kinds: []string{"rlock"}}, cancel: func() {}}
			r.makeNames(rand.New(rand.NewPCG(1, 1)))
			n := r.names[0]
			n.believe(&tt.a)
			n.believe(&tt.b)
			require.Equal(t, tt.bad, len(r.failures) > 0, r.failures)
			n.give(&tt.a)
			n.believe(&tt.b)
		})
	}
}
