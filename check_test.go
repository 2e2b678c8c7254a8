package latchkey_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// forCheck are the commands that Check uses and the primitives do not.
var forCheck = []string{"info", "acl|whoami", "client|info"}

func check(t testing.TB, c *latchkey.Client) latchkey.Report {
	t.Helper()
	r, err := c.Check(t.Context())
	require.NoError(t, err)
	return r
}

// finding returns the worst finding of that name; it must exist.
func finding(t testing.TB, r latchkey.Report, name string) latchkey.Finding {
	t.Helper()
	worst, found := latchkey.Finding{Level: -1}, false
	for _, f := range r.Findings {
		if f.Name == name && f.Level > worst.Level {
			worst, found = f, true
		}
	}
	require.True(t, found, "no finding of %s in %+v", name, r.Findings)
	return worst
}

func TestCheckOfAHealthyServer(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes")
	s.Allow(t, forCheck...)
	r := check(t, newClient(t, s.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })))
	require.Equal(t, "single", r.Topology)
	for _, f := range r.Findings {
		assert.Equal(t, latchkey.LevelOK, f.Level, "%+v", f)
	}
	assert.Equal(t, latchkey.LevelOK, r.Worst())
	for _, name := range []string{"version", "role", "eviction", "persistence", "rights", "client", "pubsub", "clock"} {
		finding(t, r, name)
	}
	require.Len(t, r.Servers, 1)
	got := r.Servers[0]
	assert.Equal(t, s.Addr, got.Addr)
	assert.Equal(t, "master", got.Role)
	assert.Equal(t, redistest.UserName(), got.User)
	assert.Equal(t, "noeviction", got.Policy)
	assert.True(t, got.Persistent)
	assert.NotEmpty(t, got.Version)
	assert.Positive(t, got.RoundTrip)
	assert.Less(t, got.Clock.Abs(), time.Second)
	assert.Empty(t, s.Do(t, "KEYS", "*"), "nothing stays behind")
}

// A command that takes longer than it may on its caller's goroutine is not a
// refusal.
func TestCheckOnASlowServer(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes")
	s.Allow(t, forCheck...)
	p := redistest.NewProxy(t, s.Addr)
	p.Delay(60 * time.Millisecond)
	r := check(t, newClient(t, s.Client(t, func(o *redis.Options) { o.Addr, o.ContextTimeoutEnabled = p.Addr(), true })))
	require.Equal(t, latchkey.LevelOK, r.Worst(), "%+v", r.Findings)
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, forCheck...)
	for name, c := range map[string]struct {
		setting, value string
		finding        string
		level          latchkey.Level
		text           string
	}{
		"policy": {"maxmemory-policy", "allkeys-lru", "eviction", latchkey.LevelWarning, "allkeys-lru"},
		"full":   {"maxmemory", "1", "memory", latchkey.LevelFailure, "all of the 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			was := s.Do(t, "CONFIG", "GET", c.setting)[1]
			s.Do(t, "CONFIG", "SET", c.setting, c.value)
			defer s.Do(t, "CONFIG", "SET", c.setting, was)
			f := finding(t, check(t, newClient(t, s.Client(t))), c.finding)
			assert.Equal(t, c.level, f.Level, f)
			assert.Contains(t, f.Text, c.text)
		})
	}
	t.Run("evicts", func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
		s.Do(t, "CONFIG", "SET", "maxmemory", "100mb")
		f := finding(t, check(t, newClient(t, s.Client(t))), "eviction")
		assert.Equal(t, latchkey.LevelFailure, f.Level)
		assert.Contains(t, f.Text, "volatile-ttl")
	})
}

func TestCheckOfReplicas(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	master.Allow(t, forCheck...)
	replica.Allow(t, forCheck...)
	f := finding(t, check(t, newClient(t, replica.Client(t))), "role")
	assert.Equal(t, latchkey.LevelFailure, f.Level)
	f = finding(t, check(t, newClient(t, master.Client(t))), "role")
	assert.Equal(t, latchkey.LevelNote, f.Level)
	assert.Contains(t, f.Text, "1 replicas")
}

// The client for a single server is connected to a Sentinel.
func TestCheckOfASentinel(t *testing.T) {
	sentinel := redistest.StartSentinel(t, "main", redistest.Start(t))
	r, err := newClient(t, sentinel.Client(t)).Check(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Servers, 1)
	require.Equal(t, "sentinel", r.Servers[0].Role)
	require.Equal(t, latchkey.LevelFailure, r.Worst())
	require.Len(t, r.Findings, 2, "version and role: there is nothing else to try")
	require.Equal(t, "role", r.Findings[1].Name)
	require.Contains(t, r.Findings[1].Text, `a Sentinel, which keeps no locks`)
	require.Contains(t, r.Findings[1].Text, `this one watches "main"`)
}

func TestCheckOfRights(t *testing.T) {
	s := redistest.Start(t)
	rules := func(more ...string) []string {
		return append([]string{"reset", "on", ">pw", "~*", "&*", "+@all"}, more...)
	}
	for name, c := range map[string]struct {
		rules   []string
		prefix  string
		finding string
		level   latchkey.Level
		text    string
	}{
		"all":          {rules: rules(), finding: "rights", level: latchkey.LevelOK},
		"no command":   {rules: rules("-hset"), finding: "rights", level: latchkey.LevelFailure, text: "locks do not work, a hash at"},
		"no scripts":   {rules: rules("-@scripting"), finding: "rights", level: latchkey.LevelFailure, text: "evalsha"},
		"no lists":     {rules: rules("-@list"), finding: "rights", level: latchkey.LevelWarning, text: "fair locks do not work, a list at"},
		"no DEL":       {rules: rules("-del"), finding: "rights", level: latchkey.LevelFailure, text: "DEL: "},
		"other keys":   {rules: rules("resetkeys", "~app:*"), finding: "rights", level: latchkey.LevelFailure, text: "locks do not work"},
		"main keys":    {rules: rules("resetkeys", "~app:*"), prefix: "app:", finding: "rights", level: latchkey.LevelWarning, text: "do not work"},
		"all keys":     {rules: rules("resetkeys", "~app:*", "~*:{app:*", "~{app:*"), prefix: "app:", finding: "rights", level: latchkey.LevelOK},
		"no channels":  {rules: rules("resetchannels"), finding: "pubsub", level: latchkey.LevelWarning, text: "cannot listen"},
		"no publish":   {rules: rules("-publish"), finding: "pubsub", level: latchkey.LevelWarning, text: "cannot tell"},
		"no info":      {rules: rules("-info", "-client", "-acl"), finding: "server", level: latchkey.LevelNote, text: "INFO is denied"},
		"no time":      {rules: rules("-time"), finding: "rights", level: latchkey.LevelFailure, text: "TIME: "},
		"channels too": {rules: rules("resetchannels", "&redisson_*"), finding: "pubsub", level: latchkey.LevelOK},
	} {
		t.Run(name, func(t *testing.T) {
			s.Do(t, append([]string{"ACL", "SETUSER", "ann"}, c.rules...)...)
			rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "ann", "pw" })
			f := finding(t, check(t, newClient(t, rdb, latchkey.WithKeyPrefix(c.prefix))), c.finding)
			assert.Equal(t, c.level, f.Level, f.Text)
			assert.Contains(t, f.Text, c.text)
			assert.Empty(t, s.Do(t, "KEYS", "*"), "nothing stays behind")
		})
	}
}

func TestCheckModes(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, forCheck...)
	sharded := latchkey.LevelOK
	if !redistest.Sharded() {
		sharded = latchkey.LevelWarning
	}
	for mode, level := range map[latchkey.PubSubMode]latchkey.Level{
		latchkey.PubSubAuto: latchkey.LevelOK, latchkey.PubSubPlain: latchkey.LevelOK,
		latchkey.PubSubSharded: sharded, latchkey.PubSubBoth: sharded, latchkey.Polling: latchkey.LevelNote,
	} {
		f := finding(t, check(t, newClient(t, s.Client(t), latchkey.WithPubSub(mode))), "pubsub")
		assert.Equal(t, level, f.Level, "%d: %s", mode, f.Text)
	}
}

func TestCheckOfACluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	for _, s := range cl.Nodes {
		s.Allow(t, append(forCheck, "cluster|info")...)
	}
	r := check(t, newClient(t, cl.Client(t)))
	require.Equal(t, "cluster", r.Topology)
	require.Len(t, r.Servers, 3)
	rights := 0
	for _, f := range r.Findings {
		assert.LessOrEqual(t, f.Level, latchkey.LevelNote, "%+v", f)
		if f.Name == "rights" {
			rights++
		}
	}
	assert.Equal(t, 3, rights, "of each master")
	assert.Contains(t, finding(t, r, "topology").Text, "3 masters")

	f := finding(t, check(t, newClient(t, cl.Nodes[0].Client(t))), "topology")
	assert.Equal(t, latchkey.LevelFailure, f.Level)
	assert.Contains(t, f.Text, "a node of a Redis Cluster")

	// One that is down is found, and does not hide the others.
	c := newClient(t, cl.Client(t))
	check(t, c)
	cl.Nodes[0].Kill()
	r = check(t, c)
	require.Len(t, r.Servers, 2)
	f = finding(t, r, "server")
	assert.Equal(t, latchkey.LevelFailure, f.Level)
	assert.Equal(t, cl.Nodes[0].Addr, f.Server)
	assert.Contains(t, f.Text, "does not answer")
}

func TestCheckFails(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.DialerRetries, o.MaxRetries = 1, -1 })
	s.Allow(t, forCheck...)
	c := newClient(t, rdb)

	// It does not outlive its context, whatever Redis does.
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := c.Check(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 2*time.Second)
	s.Thaw()

	s.Kill()
	_, err = c.Check(t.Context())
	require.Error(t, err)
	require.True(t, strings.HasPrefix(err.Error(), "latchkey: check: "), err)

	require.NoError(t, c.Close())
	_, err = c.Check(t.Context())
	require.ErrorIs(t, err, latchkey.ErrClosed)

	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err = newClient(t, ring).Check(t.Context())
	require.ErrorIs(t, err, latchkey.ErrUnsupported)
}

func TestCheckWithAWrongPassword(t *testing.T) {
	locked := redistest.Start(t)
	wrong := redis.NewClient(&redis.Options{Addr: locked.Addr, Username: "default", Password: "wrong"})
	defer wrong.Close()
	locked.Do(t, "ACL", "SETUSER", "default", "resetpass", ">right") // the connection of Do is in already
	nobody := latchkey.New(wrong)
	defer nobody.Close()
	_, err := nobody.Check(t.Context())
	require.ErrorContains(t, err, "WRONGPASS")
}

func TestLevels(t *testing.T) {
	var words []string
	for l := latchkey.LevelOK; l <= latchkey.LevelFailure; l++ {
		words = append(words, l.String())
	}
	require.Equal(t, []string{"ok", "note", "warning", "failure"}, words)
}
