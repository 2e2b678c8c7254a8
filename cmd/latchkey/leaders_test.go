package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/text/texttest"
)

func TestLeaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	code, stdout, stderr := execute(t, at(s, "leaders")...)
	assert.Zero(t, code)
	assert.Regexp(t, `^ELECTION .*\n$`, stdout)
	assert.Equal(t, "latchkey: no election is known\n", stderr)

	// lead leads until the function that it returns is called.
	lead := func(name, identity string) (end func()) {
		begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- elect.New(c, name, elect.Identity(identity), elect.Value("10.0.0.1:80")).Run(t.Context(), func(context.Context, elect.Term) error {
				close(begun)
				<-over
				return nil
			})
		}()
		<-begun
		return func() {
			close(over)
			require.NoError(t, <-ended)
		}
	}
	lead("old", "nobody now")()
	defer lead("reconciler", "ann")()
	defer lead("{odd}", texttest.Hostile[0])()
	// Nothing of ours, however much it looks like it.
	s.Do(t, "SET", "{text}:latchkey_leader", "x")
	s.Do(t, "HSET", "odd:latchkey_leader", "identity", "x")

	all := decoded[[]shownLeader](t, at(s, "leaders")...)
	require.Len(t, all, 3)
	byName := map[string]shownLeader{}
	for _, l := range all {
		byName[l.Election] = l
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	ann := byName["reconciler"]
	since, err := time.Parse(time.RFC3339Nano, ann.Since)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), since, time.Minute)
	assert.Positive(t, ann.Term)
	ann.Since, ann.ForMs, ann.Term = "", 0, 0
	assert.Equal(t, shownLeader{Election: "reconciler", Leader: "ann", Value: "10.0.0.1:80", Host: host, PID: os.Getpid()}, ann)
	assert.Equal(t, shownLeader{Election: "old"}, byName["old"])
	assert.Equal(t, texttest.Hostile[0], byName["{odd}"].Leader)

	assert.Len(t, decoded[[]shownLeader](t, at(s, "leaders", "--match", "rec*")...), 1)
	assert.Equal(t, "ann", decoded[[]shownLeader](t, at(s, "leaders", "reconciler")...)[0].Leader)
	code, stdout, stderr = execute(t, at(s, "leaders", "unheard")...)
	assert.Zero(t, code, stderr)
	assert.Regexp(t, `^ELECTION +LEADER +TERM +FOR +PROCESS +VALUE\nunheard +- +- +- +- +-\n$`, stdout)
	_, stdout, _ = execute(t, at(s, "leaders")...)
	assert.Regexp(t, `(?m)^reconciler +ann +\d+ +[\d.]+s +`+host+`:\d+ +10\.0\.0\.1:80$`, stdout)
	assert.NotContains(t, stdout, texttest.Hostile[0])

	_, stdout, _ = execute(t, append([]string{"__complete"}, at(s, "leaders", "rec")...)...)
	assert.Equal(t, "reconciler\n:4\n", stdout)

	for _, args := range [][]string{{"leaders", ""}, {"leaders", "a", "b"}, {"leaders", "a", "--match", "a"}} {
		code, stdout, stderr := execute(t, at(s, args...)...)
		assert.Equal(t, exit.Usage, code, args)
		assert.Empty(t, stdout, args)
		assert.Contains(t, stderr, "latchkey: leaders: ", args)
	}
}
