package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/text/texttest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// acquired is the JSON of acquire.
type acquired struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Token   int64  `json:"token"`
	LeaseMs int64  `json:"lease_ms"`
}

// What acquire takes outlives it, until release gives it to a waiter.
func TestAcquireExtendRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, stdout, stderr := execute(t, at(s, "acquire", "deploy", "--lease", "1h", "--label", "ann, release 42")...)
	require.Zero(t, code, stderr)
	assert.Empty(t, stderr)
	require.Regexp(t, `^\S+:\d+ \d+\n$`, stdout)
	id, token, _ := strings.Cut(strings.TrimSpace(stdout), " ")

	o := decoded[object.Object](t, at(s, "show", "deploy")...)
	require.Len(t, o.Holders, 1)
	assert.Equal(t, id, o.Holders[0].ID)
	assert.Equal(t, "ann, release 42", o.Holders[0].Label)
	assert.NotEmpty(t, o.Holders[0].Since)
	assert.InDelta(t, 3600_000, o.Holders[0].LeaseMs, 60_000)
	assert.Equal(t, token, strconv.FormatInt(o.Token, 10))
	_, stdout, _ = execute(t, at(s, "ls")...)
	assert.Regexp(t, `\ndeploy +lock .* ann, release 42 `, stdout)

	for _, flags := range [][]string{{"-n"}, {"-w", "0.1"}} {
		code, stdout, stderr = execute(t, at(s, append([]string{"acquire", "deploy", "--lease", "1h"}, flags...)...)...)
		assert.Equal(t, exit.Conflict, code)
		assert.Empty(t, stdout)
		assert.Regexp(t, `^latchkey: somebody else has the lock "deploy": held by "ann, release 42" \(\S+:\d+\) for \S+, lease \S+\n$`, stderr)
	}

	// A lease only grows, with that of the label.
	lease := func() (lock, label int) {
		t.Helper()
		for key, ms := range map[string]*int{"deploy": &lock, "latchkey_label:{deploy}:" + id: &label} {
			n, err := strconv.Atoi(s.Do(t, "PTTL", key)[0])
			require.NoError(t, err)
			*ms = n
		}
		return lock, label
	}
	code, _, stderr = execute(t, at(s, "extend", "deploy", "--id", id, "--lease", "1m")...)
	assert.Zero(t, code, stderr)
	lock, label := lease()
	assert.Greater(t, lock, 3500_000)
	assert.Greater(t, label, 3500_000)
	code, stdout, stderr = execute(t, at(s, "extend", "deploy", "--id", id[:8], "--lease", "3h")...)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "deploy is held by "+id+" for 3h at least\n", stdout)
	lock, label = lease()
	assert.InDelta(t, 3*3600_000, lock, 60_000)
	assert.InDelta(t, 3*3600_000, label, 60_000)

	// A worker waits, and has it as soon as it is released.
	c := newClient(t, s.Client(t))
	got := rlock.New(c, "deploy", rlock.Fenced()).LockAsync(t.Context())
	redistest.Until(t, "it to wait", func() bool { return c.Stats().Waiting == 1 && c.Stats().Subscriptions > 0 })
	code, stdout, stderr = execute(t, at(s, "release", "deploy", "--id", id)...)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "deploy was released by "+id+"\n", stdout)
	worker := <-got
	require.NoError(t, worker.Err)
	before, err := strconv.ParseInt(token, 10, 64)
	require.NoError(t, err)
	assert.Greater(t, worker.Value.Token(), before)
	assert.Equal(t, []string{"0"}, s.Do(t, "EXISTS", "latchkey_label:{deploy}:"+id))

	// It is the worker's now, whoever still holds on to the id.
	for _, args := range [][]string{{"release"}, {"extend", "--lease", "9h"}} {
		code, stdout, stderr = execute(t, at(s, append(args, "deploy", "--id", id)...)...)
		assert.Equal(t, exit.Conflict, code)
		assert.Empty(t, stdout)
		assert.Equal(t, "latchkey: "+id+" does not hold deploy ("+worker.Value.HolderID()+")\n", stderr)
	}
	lock, _ = lease()
	assert.Less(t, lock, 60_000)
	assert.Equal(t, []string{worker.Value.HolderID(), "1"}, s.Do(t, "HGETALL", "deploy"))
}

// An acquire waits, as run does, and is first where it was first in a queue.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	first := decoded[acquired](t, at(s, "acquire", "deploy", "--fair", "--lease", "1h")...)
	c := prepare(t, at(s, "acquire", "deploy", "--fair", "--lease", "1h", "-w", "60")...).start()
	queue := fairlock.New(newClient(t, s.Client(t)), "deploy")
	redistest.Until(t, "it to queue", func() bool {
		ws, err := queue.Waiters(t.Context())
		return err == nil && len(ws) == 1
	})
	code, _, stderr := execute(t, at(s, "release", "deploy", "--id", first.ID)...)
	assert.Zero(t, code, stderr)
	assert.Zero(t, c.code())
	assert.Equal(t, []string{strings.TrimSpace(c.out.String()), "1"}, s.Do(t, "HGETALL", "deploy"))
}

// Every kind of lock can be taken by hand.
func TestAcquireKinds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for kind, flag := range map[string]string{"lock": "", "fair": "--fair", "reader": "-s", "writer": "-x", "permit": "--permits=1"} {
		args := at(s, "acquire", kind, "--lease", "1h")
		if flag != "" {
			args = append(args, flag)
		}
		a := decoded[acquired](t, args...)
		assert.Equal(t, kind, a.Name)
		assert.EqualValues(t, 3600_000, a.LeaseMs)
		assert.Equal(t, kind == "lock", a.Token > 0, kind)
		o := decoded[object.Object](t, at(s, "show", kind)...)
		require.Len(t, o.Holders, 1, kind)
		assert.Equal(t, a.ID, o.Holders[0].ID)
		assert.InDelta(t, 3600_000, o.Holders[0].LeaseMs, 60_000, kind)
		assert.Regexp(t, "^[^@ ]+@[^ ]+$", o.Holders[0].Label)

		decoded[acquired](t, at(s, "extend", kind, "--id", a.ID, "--lease", "2h")...)
		decoded[acquired](t, at(s, "extend", kind, "--id", a.ID, "--lease", "1m")...)
		o = decoded[object.Object](t, at(s, "show", kind)...)
		require.Len(t, o.Holders, 1, kind)
		assert.InDelta(t, 2*3600_000, o.Holders[0].LeaseMs, 60_000, kind)
		for _, key := range s.Do(t, "KEYS", "latchkey_label:*") {
			ms, err := strconv.Atoi(s.Do(t, "PTTL", key)[0])
			require.NoError(t, err)
			assert.Greater(t, ms, 3600_000, "the label of a %s", kind)
		}

		decoded[struct {
			Name     string `json:"name"`
			ID       string `json:"id"`
			Released bool   `json:"released"`
		}](t, at(s, "release", kind, "--id", a.ID)...)
		o = decoded[object.Object](t, at(s, "show", kind)...)
		assert.Empty(t, o.Holders, kind)
		assert.Empty(t, strings.Join(s.Do(t, "KEYS", "latchkey_label:*"), ""), kind)
		for _, cmd := range [][]string{{"release"}, {"extend", "--lease", "1h"}} {
			code, _, stderr := execute(t, at(s, append(cmd, kind, "--id", a.ID)...)...)
			assert.Equal(t, exit.Conflict, code, kind)
			assert.Equal(t, "latchkey: "+a.ID+" does not hold "+kind+" (nobody has)\n", stderr)
		}
	}
}

// What has expired is nobody's.
func TestAcquireExpires(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := decoded[acquired](t, at(s, "acquire", "deploy", "--lease", "0.1")...)
	redistest.Until(t, "the end of the lease", func() bool { return free(t, s, "deploy") })
	for _, cmd := range [][]string{{"release"}, {"extend", "--lease", "1h"}} {
		code, _, stderr := execute(t, at(s, append(cmd, "deploy", "--id", a.ID)...)...)
		assert.Equal(t, exit.Conflict, code)
		assert.Equal(t, "latchkey: "+a.ID+" does not hold deploy (nobody has)\n", stderr)
	}
	assert.True(t, free(t, s, "deploy"))
}

// One of many readers gives back only what it has, and a permit without end keeps
// that.
func TestReleaseOneOfMany(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	read := rwlock.New(c, "data").ReadLock()
	one, two := take(t, read), take(t, read)
	for _, cmd := range [][]string{{"release"}, {"extend", "--lease", "1h"}} {
		code, _, stderr := execute(t, at(s, append(cmd, "data", "--id", c.ID()[:8])...)...)
		assert.Equal(t, exit.Usage, code)
		assert.Contains(t, stderr, cmd[0]+": --id "+c.ID()[:8]+": 2 holders of data begin with that")
	}
	code, _, stderr := execute(t, at(s, "release", "data", "--id", one.HolderID())...)
	assert.Zero(t, code, stderr)
	o := decoded[object.Object](t, at(s, "show", "data")...)
	require.Len(t, o.Holders, 1)
	assert.Equal(t, two.HolderID(), o.Holders[0].ID)

	pool := permitsemaphore.New(c, "pool")
	_, err := pool.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	p, err := pool.Acquire(t.Context(), permitsemaphore.Permanent())
	require.NoError(t, err)
	code, _, stderr = execute(t, at(s, "extend", "pool", "--id", p.ID(), "--lease", "1h")...)
	assert.Zero(t, code, stderr)
	left, err := pool.LeaseTime(t.Context(), p.ID())
	require.NoError(t, err)
	assert.EqualValues(t, -1, left)
}

func TestByHandUsage(t *testing.T) {
	t.Parallel()
	const nowhere = "redis://127.0.0.1:1"
	for _, args := range [][]string{
		{"acquire"},
		{"acquire", "deploy"},
		{"acquire", "deploy", "--lease", "99ms"},
		{"acquire", "deploy", "--lease", "200000h"},
		{"acquire", "deploy", "--lease", "1h", "-n", "-w", "1"},
		{"acquire", "deploy", "--lease", "1h", "-s", "-x"},
		{"acquire", "deploy", "--lease", "1h", "--permits", "0"},
		{"acquire", "deploy", "--lease", "1h", "--label", strings.Repeat("x", 1025)},
		{"acquire", "deploy", "now", "--lease", "1h"},
		{"acquire", "redisson_lock_token:{deploy}", "--lease", "1h"},
		{"extend", "deploy", "--id", "x"},
		{"extend", "deploy", "--id", "x", "--lease", "0"},
		{"extend", "deploy", "--lease", "1h"},
		{"release", "deploy"},
		{"release", "--id", "x"},
	} {
		code, stdout, stderr := execute(t, append([]string{"-u", nowhere}, args...)...)
		assert.Equal(t, exit.Usage, code, args)
		assert.Empty(t, stdout, args)
		assert.NotEmpty(t, stderr, args)
	}
	for _, args := range [][]string{{"acquire", "deploy", "--lease", "1h"}, {"extend", "deploy", "--id", "x", "--lease", "1h"}, {"release", "deploy", "--id", "x"}} {
		code, _, stderr := execute(t, append([]string{"-u", nowhere}, args...)...)
		assert.Equal(t, exit.Unavailable, code, args)
		assert.Regexp(t, `^latchkey: Redis at 127\.0\.0\.1:1: `, stderr)
	}
}

// A label cannot harm the terminal of a caller that is refused.
func TestAcquireWithHostileLabels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, label := range texttest.Hostile {
		if strings.Contains(label, "\x00") || len(label) > maxLabel {
			continue
		}
		a := decoded[acquired](t, at(s, "acquire", "deploy", "--lease", "1h", "--label="+label)...)
		code, stdout, stderr := execute(t, at(s, "acquire", "deploy", "--lease", "1h", "-n")...)
		assert.Equal(t, exit.Conflict, code)
		assert.Empty(t, stdout)
		harmlessText(t, stderr)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		code, _, stderr = execute(t, at(s, "release", "deploy", "--id", a.ID)...)
		assert.Zero(t, code, stderr)
	}
}

// A lock whose holder nobody has read is given back.
func TestAcquireIntoNowhere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	for _, out := range []*os.File{full, w} {
		for _, flags := range [][]string{nil, {"--json"}, {"--permits=1"}} {
			c := prepare(t, at(s, append([]string{"acquire", "deploy" + strings.Join(flags, ""), "--lease", "1h"}, flags...)...)...)
			c.cmd.Stdout = out
			c.start()
			assert.Equal(t, exit.Failed, c.code(), flags)
			assert.Regexp(t, `^latchkey: what there is to show cannot be written: .*\n$`, c.err.String())
			assert.Empty(t, decoded[object.Object](t, at(s, "show", "deploy"+strings.Join(flags, ""))...).Holders)
		}
	}
}

// What was granted to somebody who has gone is taken back.
func TestAcquireInterrupted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := take(t, rlock.New(newClient(t, s.Client(t)), "deploy"), latchkey.Lease(time.Hour))
	c := prepare(t, at(s, "acquire", "deploy", "--lease", "1h")...).start()
	redistest.Until(t, "it to wait", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{deploy}")[1] == "1"
	})
	c.signal(syscall.SIGTERM)
	assert.Equal(t, exit.Signal+15, c.code())
	assert.Empty(t, c.out.String())

	// The reply with the grant comes after the signal.
	require.NoError(t, h.Unlock(t.Context()))
	p := redistest.NewProxy(t, s.Addr)
	p.HoldFor(time.Second)
	p.OnNext(1, "evalsha", redistest.Hold)
	c = prepare(t, "-u", "redis://"+p.Addr(), "acquire", "deploy", "--lease", "1h").start()
	redistest.Until(t, "the lock to be taken", func() bool { return !free(t, s, "deploy") })
	c.signal(syscall.SIGTERM)
	assert.Equal(t, exit.Signal+15, c.code())
	assert.Empty(t, c.out.String())
	assert.True(t, free(t, s, "deploy"))
}

// An acquire in a run does not wait for that run.
func TestAcquireInARunThatHasIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, _, stderr := execute(t, runAt(s, []string{"deploy"}, append([]string{quick}, at(s, "acquire", "deploy", "--lease", "1h")...))...)
	assert.Equal(t, exit.Conflict, code)
	assert.Contains(t, stderr, `a run that this one is part of has the lock "deploy"`)
}
