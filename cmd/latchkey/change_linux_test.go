package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/bench"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

func lost(t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the holder does not hear of its loss")
	}
}

func TestForceUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := latchkey.New(s.Client(t), latchkey.WithWatchdogTimeout(600*time.Millisecond))
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	rw := rwlock.New(c, "data")
	for name, l := range map[string]latchkey.Locker{
		"job": rlock.New(c, "job"), "fair": fairlock.New(c, "fair"), "data": rw.ReadLock(), "writer": rwlock.New(c, "writer").WriteLock(),
	} {
		h := take(t, l)
		id := h.HolderID()
		if name == "writer" {
			id += ":write"
		}
		code, stdout, stderr := execute(t, at(s, "force-unlock", name, "--id", id, "--yes")...)
		assert.Zero(t, code, stderr)
		assert.Equal(t, name+" was taken from "+id+"\n", stdout)
		lost(t, h.Lost())
	}
	pool := permitsemaphore.New(c, "pool")
	_, err := pool.TrySetPermits(t.Context(), 2)
	require.NoError(t, err)
	p, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	code, _, stderr := execute(t, at(s, "force-unlock", "pool", "--id", p.ID(), "-y", "--json")...)
	assert.Zero(t, code, stderr)
	lost(t, p.Lost())

	code, _, stderr = execute(t, at(s, "force-unlock", "pool", "--id", "nobody", "-y")...)
	assert.Equal(t, exit.Conflict, code)
	assert.Equal(t, "latchkey: nobody does not hold pool (nobody has)\n", stderr)
}

// The beginning of a holder will do, if it is that of one only.
func TestForceUnlockByTheBeginning(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := latchkey.New(s.Client(t), latchkey.WithWatchdogTimeout(600*time.Millisecond))
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	h := take(t, rlock.New(c, "job"))
	code, _, stderr := execute(t, at(s, "force-unlock", "job", "--id", c.ID()[:3], "--yes")...)
	assert.Equal(t, exit.Usage, code, "too short")
	assert.Contains(t, stderr, "at least the first 4 characters")
	code, stdout, stderr := execute(t, at(s, "force-unlock", "job", "--id", c.ID()[:8], "--yes")...)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "job was taken from "+h.HolderID()+"\n", stdout)
	lost(t, h.Lost())

	read := rwlock.New(c, "data").ReadLock()
	take(t, read)
	take(t, read)
	code, _, stderr = execute(t, at(s, "force-unlock", "data", "--id", c.ID()[:8], "--yes")...)
	assert.Equal(t, exit.Usage, code)
	assert.Contains(t, stderr, "2 holders of data begin with that")
}

// The next holder after one that looked dead keeps what it has.
func TestForceUnlockOfAChangedHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(t))
	l := rlock.New(c, "job")
	before := take(t, l)
	require.NoError(t, before.Unlock(t.Context()))
	now := take(t, l)
	code, stdout, stderr := execute(t, at(s, "force-unlock", "job", "--id", before.HolderID(), "--yes")...)
	assert.Equal(t, exit.Conflict, code)
	assert.Empty(t, stdout)
	assert.Equal(t, "latchkey: "+before.HolderID()+" does not hold job ("+now.HolderID()+")\n", stderr)
	assert.Positive(t, now.Remaining())
	assert.Equal(t, []string{now.HolderID(), "1"}, s.Do(t, "HGETALL", "job"))

	// Without anybody to ask, and without an answer, nothing is done.
	c2 := prepare(t, at(s, "force-unlock", "job", "--id", now.HolderID())...)
	detach(c2)
	c2.start()
	assert.Equal(t, exit.Usage, c2.code())
	assert.Contains(t, c2.err.String(), "--yes goes on without asking")
	code, _, stderr = execute(t, at(s, "force-unlock", "job", "-y")...)
	assert.Equal(t, exit.Usage, code)
	assert.Contains(t, stderr, "--id is missing")
	assert.False(t, free(t, s, "job"))
}

// Permits whose ids nobody can read are given back.
func TestSemAcquireIntoNowhere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", "pool", "3")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	for _, out := range []*os.File{full, w} {
		for _, args := range [][]string{{"--lease", "1m"}, {"--lease", "1m", "--json"}, {"--json"}} {
			c := prepare(t, at(s, append([]string{"sem", "acquire", "pool", "2"}, args...)...)...)
			c.cmd.Stdout = out
			c.start()
			assert.Equal(t, exit.Failed, c.code(), args)
			assert.Regexp(t, `^latchkey: what there is to show cannot be written: .*\n$`, c.err.String())
			assert.Equal(t, []string{"3"}, s.Do(t, "GET", "pool"), args)
			assert.Equal(t, []string{"0"}, s.Do(t, "ZCARD", "{pool}:timeout"), args)
		}
	}
}

// What cannot be written has nothing to do with Redis or with the command line.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, args := range [][]string{at(s, "ls"), at(s, "show", "job"), at(s, "doctor"), at(s, "top", "-d", "0.1"), {"version"}} {
		for _, flags := range [][]string{nil, {"--json"}} {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(t, err)
			defer full.Close()
			c := prepare(t, append(args, flags...)...)
			c.cmd.Stdout = full
			c.start()
			assert.Equal(t, exit.Failed, c.code(), args)
			assert.Regexp(t, `^latchkey: what there is to show cannot be written: .*no space left on device\n$`, c.err.String())
		}
	}
}

func TestSem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := execute(t, at(s, append([]string{"sem"}, args...)...)...)
		assert.Equal(t, want, code, "%s\n%s", stdout, stderr)
		return stdout, stderr
	}
	run(exit.Usage)
	stdout, _ := run(0, "set", "plain", "3")
	assert.Equal(t, "plain  counter\n  available  3\n", stdout)
	stdout, _ = run(0, "acquire", "plain", "2")
	assert.Empty(t, stdout)
	assert.Equal(t, []string{"1"}, s.Do(t, "GET", "plain"))
	_, stderr := run(exit.Conflict, "acquire", "plain", "2", "-w", "0.1")
	assert.Equal(t, "latchkey: plain has not so many permits available\n", stderr)
	run(exit.Conflict, "acquire", "plain", "2", "--nonblock")
	run(0, "release", "plain", "2")
	run(0, "add", "plain", "--", "-1")
	run(0, "set", "plain", "9", "--if-absent")
	assert.Equal(t, []string{"2"}, s.Do(t, "GET", "plain"))

	// An id that a script does not have is not a permit more.
	_, stderr = run(exit.Usage, "release", "plain", "--id", "")
	assert.Contains(t, stderr, "an --id is empty")
	assert.Equal(t, []string{"2"}, s.Do(t, "GET", "plain"))

	// Permits with ids outlive the command, and come back by themselves.
	stdout, _ = run(0, "acquire", "plain", "2", "--lease", "30s")
	ids := strings.Fields(stdout)
	require.Len(t, ids, 2)
	o := decoded[object.Object](t, at(s, "sem", "show", "plain")...)
	assert.Equal(t, "permitsemaphore", o.Kind)
	assert.Len(t, o.Holders, 2)
	assert.InDelta(t, 30_000, o.Holders[0].LeaseMs, 15_000)
	_, stderr = run(exit.Usage, "acquire", "plain")
	assert.Contains(t, stderr, "--lease is needed")
	_, stderr = run(exit.Usage, "release", "plain")
	assert.Contains(t, stderr, "--id is needed")
	run(0, "release", "plain", "--id", ids[0], "--id", ids[1])
	code := 0
	for i := 0; code == 0 && i < 20; i++ { // 0 on a slow machine: of two requests, the first may have released it
		code, _, stderr = execute(t, at(s, "sem", "release", "plain", "--id", ids[0])...)
	}
	assert.Equal(t, exit.Conflict, code)
	assert.Contains(t, stderr, "plain: not held: "+ids[0])
	run(0, "acquire", "plain", "2", "--lease", "0.2")
	run(0, "acquire", "plain", "--lease", "1m", "-w", "10")
	run(0, "delete", "plain", "-y")
	run(0, "set", "plain", "1")
	run(exit.Usage, "acquire", "plain", "--lease", "0") // no permit without a lease
	assert.Equal(t, []string{"1"}, s.Do(t, "GET", "plain"))
	stdout, _ = run(0, "delete", "plain", "-y")
	assert.Equal(t, "plain was removed\n", stdout)
	assert.Equal(t, done{Name: "plain"}, decoded[done](t, at(s, "sem", "delete", "plain", "-y")...))
	for _, args := range [][]string{
		{"set", "plain"},
		{"set", "plain", "x"},
		{"set", "plain", "-1"},
		{"set", "plain", "1", "2"},
		{"acquire", "plain", "0"},
		{"acquire", "plain", "-w", "1", "--nonblock"},
		{"acquire", "plain", "--lease", "0"},
		{"acquire", "plain", "--lease", "1us"},
		{"acquire", "plain", "--lease", "99999h"},
		{"release", "plain", "1", "--id", "x"},
		{"frobnicate"},
	} {
		run(exit.Usage, args...)
	}
}

// Permits that were given to somebody who has gone are taken back.
func TestSemAcquireInterrupted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "MSET", "pool", "3", "other", "1")
	p := redistest.NewProxy(t, s.Addr)
	p.HoldFor(time.Second)
	p.OnNext(1, "evalsha", redistest.Hold)
	code, _, stderr := execute(t, at(s, "sem", "acquire", "other", "--lease", "1m")...) // the script is known now
	require.Zero(t, code, stderr)
	c := prepare(t, "-u", "redis://"+p.Addr(), "sem", "acquire", "pool", "2", "--lease", "1h").start()
	redistest.Until(t, "the permits to be out", func() bool { return s.Do(t, "GET", "pool")[0] == "1" })
	c.signal(syscall.SIGTERM)
	assert.Equal(t, exit.Signal+15, c.code())
	assert.Empty(t, c.out.String())
	assert.Equal(t, []string{"3"}, s.Do(t, "GET", "pool"))
}

func TestLatch(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := execute(t, at(s, append([]string{"latch"}, args...)...)...)
		assert.Equal(t, want, code, "%s\n%s", stdout, stderr)
		return stdout, stderr
	}
	early := prepare(t, at(s, "latch", "await", "up", "--set")...).start()
	redistest.Until(t, "it to wait", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{up}")[1] == "1"
	})
	stdout, _ := run(0, "set", "up", "3")
	assert.Equal(t, "up  latch\n  left       3\n  listeners  1\n", stdout)
	_, stderr := run(exit.Conflict, "set", "up", "5")
	assert.Equal(t, "latchkey: a count of up is running\n", stderr)
	_, stderr = run(exit.Conflict, "await", "up", "--nonblock")
	assert.Equal(t, "latchkey: the count of up has not come to 0\n", stderr)
	run(exit.Conflict, "await", "up", "-w", "0.1")
	run(exit.Conflict, "await", "up", "-w", "0")
	run(0, "count-down", "up")
	assert.Equal(t, []string{"2"}, s.Do(t, "GET", "up"))
	run(0, "countdown", "up", "2")
	assert.Zero(t, early.code())
	assert.Equal(t, "up has come to 0\n", early.out.String())
	run(0, "await", "up")
	stdout, _ = run(0, "await", "up", "-w", "0")
	assert.Equal(t, "up has come to 0\n", stdout, "not to wait is to ask once")
	assert.Equal(t, done{Name: "up", Changed: false}, decoded[done](t, at(s, "latch", "delete", "up", "-y")...))
	for _, args := range [][]string{{}, {"set", "up", "0"}, {"set", "up", "9007199254740993"}, {"await", "up", "--set", "--nonblock"}, {"count-down", "up", "0"}, {"await"}} {
		run(exit.Usage, args...)
	}
}

// That Redis is silent does not say that a count is running.
func TestLatchAwaitOfASilentRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Freeze()
	defer s.Thaw()
	for _, flags := range [][]string{nil, {"--set"}} {
		code, stdout, stderr := execute(t, at(s, append([]string{"latch", "await", "up", "-w", "0.3"}, flags...)...)...)
		assert.Equal(t, exit.Unavailable, code, flags)
		assert.Empty(t, stdout)
		assert.Equal(t, "latchkey: Redis at "+s.Addr+": no answer at the end of the wait\n", stderr)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	code, stdout, stderr := execute(t, at(s, "doctor")...)
	assert.Zero(t, code, stderr)
	for _, re := range []string{`^Redis at ` + s.Addr + `: single\n`, `\nok +version +` + s.Addr, `\nnote +persistence `, `\nok +rights `, `\nok +pubsub +- `} {
		assert.Regexp(t, re, stdout)
	}
	doctor := []string{"doctor"}
	if redistest.Since(7, 0) { // there is sharded pub/sub
		doctor = append(doctor, "--both")
	}
	d := decoded[diagnosis](t, at(s, doctor...)...)
	assert.Equal(t, "note", d.Worst)
	require.Len(t, d.Servers, 1)

	s.Do(t, "ACL", "SETUSER", "ann", "on", ">secret", "~app:*", "resetchannels", "+@all", "-hset")
	code, stdout, _ = execute(t, "-u", "redis://"+s.Addr, "--user", "ann", "-a", "secret", "doctor", "--prefix", "app:")
	assert.Equal(t, exit.Failed, code)
	assert.Regexp(t, `\nfailure +rights .* locks do not work, .*hset`, strings.ToLower(stdout))
	assert.Regexp(t, `\nwarning +pubsub `, stdout)
	assert.NotContains(t, stdout, "secret")
	code, _, _ = execute(t, "-p", "1", "doctor")
	assert.Equal(t, exit.Unavailable, code)
}

func TestBench(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, kinds, _ := execute(t, "__complete", "bench", "--kind", "")
	all := strings.Fields(kinds[:strings.Index(kinds, ":")])
	assert.Len(t, all, 7)
	for _, kind := range all {
		r := decoded[bench.Result](t, at(s, "bench", "--kind", kind, "--duration", "0.05", "--workers", "4", "--clients", "2", "--names", "2", "--hold", "0.001")...)
		assert.Equal(t, kind, r.Kind)
		assert.GreaterOrEqual(t, r.Operations, uint64(4))
		assert.Greater(t, r.PerOperation, 0.3, kind)
	}
	code, stdout, stderr := execute(t, at(s, "bench", "--workers", "1", "--duration", "0.2")...)
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^lock, 1 workers on 1 clients, 1 names, Redis at \S+\n\nOPERATIONS .*\n.* \d\.\d\d\n$`, stdout)
	r := decoded[bench.Result](t, at(s, "bench", "--workers", "1", "--duration", "0.2")...)
	assert.GreaterOrEqual(t, r.Commands, 2*r.Operations)
	assert.LessOrEqual(t, r.Commands, 2*r.Operations+20, "two commands each, and what a client asks once")
	for _, k := range s.Do(t, "KEYS", "*latchkey-bench:*") {
		assert.NotEqual(t, "-1", s.Do(t, "TTL", k)[0], k)
	}
	code, _, _ = execute(t, "bench", "--duration", "0.01", "--workers", "2")
	assert.Zero(t, code)
	for _, flag := range []string{"--kind=locks", "--names=0", "--names=17", "--permits=0", "--workers=0", "--clients=17", "--duration=0"} {
		code, _, stderr := execute(t, "bench", flag)
		assert.Equal(t, exit.Usage, code, flag)
		assert.Regexp(t, "^latchkey: bench: ", stderr)
	}
}
