package locktest

import (
	"regexp"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/lua"
)

// A HalfWay is a script that the server may stop in the middle.
type HalfWay struct {
	Script *lua.Script
	Keys   []string
	Begin  [][]any                  // commands that set up the state before it
	Args   func(server int64) []any // its ARGV, given the server's time in ms
	Look   string                   // Lua that describes the state; it gets the same KEYS, and the server's time as ARGV[1]
}

var called = regexp.MustCompile(`call\('([A-Z]+)'`)

// NeverHalfWay takes away the right to each command of each script in turn, and
// then the memory. Wherever the script stops, it must have done all or nothing.
// When it is sent again with the right given back, it must complete the work
// once.
func NeverHalfWay(t *testing.T, all ...HalfWay) {
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	for _, h := range all {
		t.Run(h.Script.Name, func(t *testing.T) { h.stop(t, s, rdb) })
	}
}

func (h HalfWay) stop(t *testing.T, s *redistest.Server, rdb *redis.Client) {
	now := func() int64 { return rdb.Time(t.Context()).Val().UnixMilli() }
	look := func() string {
		text, err := rdb.Eval(t.Context(), h.Look, h.Keys, now()).Text()
		require.NoError(t, err)
		return text
	}
	begin := func() string {
		s.FlushAll(t)
		for _, cmd := range h.Begin {
			require.NoError(t, rdb.Do(t.Context(), cmd...).Err(), "%v", cmd)
		}
		return look()
	}
	var args []any
	user := redistest.UserOnAny(t, rdb)
	run := func() error { return user.Eval(t.Context(), h.Script.Source, h.Keys, args...).Err() }

	before := begin()
	args = h.Args(now())
	require.NoError(t, run())
	after := look()
	require.NoError(t, run())
	require.Equal(t, after, look(), "twice is once")

	var names []string
	for _, m := range called.FindAllStringSubmatch(h.Script.Source, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	refused := 0
	try := func(what string, take func() (give func())) {
		begin()
		args = h.Args(now())
		give := take()
		err := run()
		give()
		if err != nil {
			refused++
			require.Contains(t, []string{before, after}, look(), "half way, without %s: %v", what, err)
		} else {
			require.Equal(t, after, look(), "without %s", what)
		}
		require.NoError(t, run(), what)
		require.Equal(t, after, look(), "again, after it was without %s: %v", what, err)
	}
	for _, name := range slices.Compact(names) {
		try(name, func() func() { return s.Deny(t, name) })
	}
	try("memory", func() func() {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		return func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") }
	})
	require.Positive(t, refused, "nothing was refused")
}
