package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// sh makes the arguments of a run of a shell script.
func sh(script string) []string { return []string{"sh", "-c", script} }

// runAt makes the arguments of run on a server, with flags that end with NAME.
func runAt(s *redistest.Server, flags []string, cmd []string) []string {
	return append(append(at(s, "run"), flags...), cmd...)
}

// held waits until somebody holds a lock.
func held(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	redistest.Until(t, name+" to be held", func() bool { return s.Do(t, "HLEN", name)[0] == "1" })
}

func free(t testing.TB, s *redistest.Server, name string) bool {
	t.Helper()
	return s.Do(t, "EXISTS", name)[0] == "0"
}

// gone waits until there is no process of that number, or only its remains.
func gone(t testing.TB, pid int) {
	t.Helper()
	redistest.Until(t, fmt.Sprintf("process %d to end", pid), func() bool { return !running(pid) })
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// number returns the number after a word in the output.
func (c *command) number(word string) int {
	c.t.Helper()
	re := regexp.MustCompile(word + `=(\d+)\s`)
	var m []string
	redistest.Until(c.t, word+" in the output", func() bool {
		m = re.FindStringSubmatch(c.out.String())
		return m != nil
	})
	n, err := strconv.Atoi(m[1])
	require.NoError(c.t, err)
	return n
}

func TestRunExitCodeOfChild(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 255": 255,
		"kill -TERM $$": 143, "kill -KILL $$": 137, "kill -INT $$": 130,
	} {
		code, _, stderr := execute(t, runAt(s, []string{"job"}, sh(script))...)
		assert.Equal(t, want, code, script)
		assert.Empty(t, stderr, script)
		assert.True(t, free(t, s, "job"), script)
	}
}

func TestRunForms(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, args := range [][]string{
		{"run", "job", "echo", "-n", "hello"},
		{"run", "job", "--", "echo", "-n", "hello"},
		{"run", "--", "job", "echo", "-n", "hello"},
		{"run", "--lease", "5", "job", "sh", "-c", "echo -n hello"},
		{"run", "-c", "echo -n hello", "job"},
		{"run", "run", "echo", "-n", "hello"},
	} {
		code, stdout, stderr := execute(t, at(s, args...)...)
		assert.Zero(t, code, args)
		assert.Equal(t, "hello", strings.TrimPrefix(stdout, "-n "), args)
		assert.Empty(t, stderr, args)
	}
	code, stdout, _ := execute(t, at(s, "run", "job", "--", "echo", "--", "-x")...)
	assert.Zero(t, code)
	assert.Equal(t, "-- -x\n", stdout, "one -- is ours")
}

func TestRunUsage(t *testing.T) {
	t.Parallel()
	const nowhere = "redis://127.0.0.1:1"
	for _, args := range [][]string{
		{"bogus"},
		{"--bogus"},
		{"run"},
		{"run", "job"},
		{"run", "job", "--"},
		{"run", "", "true"},
		{"run", "job", ""},
		{"run", "job", "-c", "true"},
		{"run", "-c", "true", "job", "true"},
		{"run", "-n", "-w", "1", "job", "true"},
		{"run", "-w", "-1", "job", "true"},
		{"run", "-w", "soon", "job", "true"},
		{"run", "-E", "256", "job", "true"},
		{"run", "-E", "-1", "job", "true"},
		{"run", "--lease", "99ms", "job", "true"},
		{"run", "--lease", "200000h", "job", "true"},
		{"run", "--hold-at-least", "2", "--hold-at-most", "1", "job", "true"},
		{"run", "--label", strings.Repeat("x", 1025), "job", "true"},
		{"run", "--bogus", "job", "true"},
		{"run", "-s", "-x", "job", "true"},
		{"run", "-s", "--fair", "job", "true"},
		{"run", "--fair", "--permits", "2", "job", "true"},
		{"run", "--permits", "0", "job", "true"},
		{"run", "--permits", "-1", "job", "true"},
		{"-h", "localhost", "run", "job", "true"},
		{"--cluster", "--sentinel-master", "m", "run", "job", "true"},
		{"--user", "ann", "run", "job", "true"},
		{"--cacert", "/nowhere", "run", "job", "true"},
		{"--cert", "/nowhere", "run", "job", "true"},
		{"version", "x"},
		{"demo", "--workers", "1"},
	} {
		code, stdout, stderr := execute(t, append([]string{"-u", nowhere}, args...)...)
		assert.Equal(t, exit.Usage, code, args)
		assert.Empty(t, stdout, args)
		assert.Regexp(t, "^latchkey: .*\nTry ", stderr, args)
	}
}

func TestRunCannotRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	file("plain-file", "x", 0o644)
	for cmd, want := range map[string]int{
		"no-such-command":                  exit.NotFound,
		filepath.Join(dir, "none"):         exit.NotFound,
		"plain-file":                       exit.CannotRun,
		filepath.Join(dir, "plain-file"):   exit.CannotRun,
		dir:                                exit.CannotRun,
		file("garbage", "\x00\x01", 0o755): exit.CannotRun,
		file("script", "#!/no/such/shell", 0o755): exit.NotFound,
	} {
		c := prepare(t, runAt(s, []string{"job"}, []string{cmd})...)
		c.cmd.Env = append(c.cmd.Env, "PATH="+os.Getenv("PATH")+":"+dir)
		c.start()
		assert.Equal(t, want, c.code(), cmd)
		assert.Regexp(t, "^latchkey: cannot run ", c.err.String(), cmd)
		assert.True(t, free(t, s, "job"))
	}
	// What can be known beforehand needs no Redis.
	code, _, _ := execute(t, "-p", "1", "run", "job", "no-such-command")
	assert.Equal(t, exit.NotFound, code)
}

func TestRunUnavailable(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "ran")
	cmd := []string{"job", "touch", marker}
	for _, flags := range [][]string{{"run"}, {"run", "-n"}, {"run", "-w", "0.2"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-u", "redis://me:geheim@127.0.0.1:1"}, append(flags, cmd...)...)
			code, _, stderr := execute(t, args...)
			assert.Equal(t, exit.Unavailable, code)
			assert.Regexp(t, `^latchkey: Redis at 127\.0\.0\.1:1: .*\n$`, stderr)
			assert.NotContains(t, stderr, "geheim")
			assert.NoFileExists(t, marker, "never without the lock")
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		s.Freeze()
		defer s.Thaw()
		code, _, _ := execute(t, runAt(s, []string{"-w", "0.3"}, cmd)...)
		assert.Equal(t, exit.Unavailable, code)
		assert.NoFileExists(t, marker)
	})
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		s.Do(t, "SET", "job", "a string")
		code, _, stderr := execute(t, runAt(s, []string{"-w", "0.3"}, cmd)...)
		assert.Equal(t, exit.Unavailable, code)
		assert.Regexp(t, `^latchkey: Redis at `, stderr)
		assert.NoFileExists(t, marker)
	})
}

func TestRunPasswords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "CONFIG", "SET", "requirepass", "geheim")
	host, port, _ := strings.Cut(s.Addr, ":")
	script := []string{"job", "sh", "-c", `echo "[$REDIS_URL][$REDISCLI_AUTH][$LATCHKEY_NAME]"`}
	for _, c := range []struct {
		args []string
		env  []string
		want string
	}{
		{[]string{"-u", "redis://:geheim@" + s.Addr}, nil, "[][][job]"},
		{[]string{"-h", host, "-p", port, "-a", "geheim"}, nil, "[][][job]"},
		{[]string{"-h", host, "-p", port, "--user", "default", "-a", "geheim"}, nil, "[][][job]"},
		{[]string{"-h", host, "-p", port}, []string{"REDISCLI_AUTH=geheim"}, "[][][job]"},
		{nil, []string{"REDIS_URL=redis://:geheim@" + s.Addr + "/0"}, "[redis://" + s.Addr + "/0][][job]"},
		{[]string{"-h", host, "-p", port, "-a", "geheim"}, []string{"REDIS_URL=redis://me:12?geheim@" + s.Addr}, "[][][job]"},
		{nil, []string{"REDIS_URL=redis://" + s.Addr, "REDISCLI_AUTH=geheim"}, "[redis://" + s.Addr + "][][job]"},
	} {
		p := prepare(t, append(append(c.args, "run"), script...)...)
		p.cmd.Env = append(p.cmd.Env, c.env...)
		p.start()
		assert.Zero(t, p.code(), c)
		assert.Equal(t, c.want+"\n", p.out.String())
		assert.Empty(t, p.err.String())
	}
	code, _, stderr := execute(t, append([]string{"-h", host, "-p", port, "run"}, script...)...)
	assert.Equal(t, exit.Unavailable, code)
	assert.Contains(t, stderr, "it wants a password")
	for _, c := range []struct {
		url  string
		code int
	}{
		{"redis://:falsch1@" + s.Addr, exit.Unavailable},
		{"redis://:fal/sch1@" + s.Addr, exit.Usage},
		{"redis://:fal#sch1@" + s.Addr, exit.Usage},
		{"redis://:%zzfalsch1@" + s.Addr, exit.Usage},
		{"falsch1@" + s.Addr, exit.Usage},
		{"redis://" + s.Addr + "/falsch1", exit.Usage},
		{"redis://" + s.Addr + "?falsch1=1", exit.Usage},
	} {
		code, _, stderr := execute(t, append([]string{"-u", c.url, "run"}, script...)...)
		assert.Equal(t, c.code, code, c.url)
		assert.NotContains(t, stderr, "sch1", c.url)
	}
}

func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	script := sh(`echo "$LATCHKEY_NAME $LATCHKEY_LEASE $LATCHKEY_TOKEN $LATCHKEY_HOLDER "; redis-cli -p ` + strings.Split(s.Addr, ":")[1] + ` hkeys my:job`)
	var last int64
	for range 2 {
		code, stdout, stderr := execute(t, runAt(s, []string{"--lease", "12s", "my:job"}, script)...)
		require.Zero(t, code, stderr)
		f := strings.Fields(stdout)
		require.GreaterOrEqual(t, len(f), 4, stdout)
		assert.Equal(t, []string{"my:job", "12000"}, f[:2])
		token, err := strconv.ParseInt(f[2], 10, 64)
		require.NoError(t, err)
		assert.Greater(t, token, last)
		last = token
		if len(f) > 4 { // there is a redis-cli
			assert.Equal(t, f[3], f[4])
		}
	}
}

func TestRunConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	first := prepare(t, runAt(s, []string{"job"}, []string{"cat"})...)
	stdin, err := first.cmd.StdinPipe()
	require.NoError(t, err)
	first.start()
	held(t, s, "job")

	marker := filepath.Join(t.TempDir(), "ran")
	for _, c := range []struct {
		flags []string
		code  int
	}{
		{[]string{"-n"}, exit.Conflict},
		{[]string{"-w", "0"}, exit.Conflict},
		{[]string{"-n", "-E", "1"}, 1},
		{[]string{"-n", "-E", "0"}, 0},
		{[]string{"-w", "0.2"}, exit.Conflict},
		{[]string{"-w", "200ms", "-E", "3"}, 3},
	} {
		start := time.Now()
		code, _, stderr := execute(t, runAt(s, append(c.flags, "job"), []string{"touch", marker})...)
		assert.Equal(t, c.code, code, c.flags)
		if c.flags[len(c.flags)-1] == "0.2" {
			assert.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
		}
		if c.code == 0 {
			assert.Empty(t, stderr, "cron would send a mail")
		} else {
			assert.Regexp(t, `^latchkey: somebody else has the lock "job": held by .+ for \S+, lease \S+s\n$`, stderr)
		}
	}
	assert.NoFileExists(t, marker)

	second := prepare(t, runAt(s, []string{"-w", "10", "job"}, []string{"touch", marker})...).start()
	redistest.Until(t, "the second to wait", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{job}")[1] == "1"
	})
	assert.NoFileExists(t, marker)
	require.NoError(t, stdin.Close())
	assert.Zero(t, first.code())
	assert.Zero(t, second.code())
	assert.FileExists(t, marker)
}

func TestRunExclude(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "log")
	var all []*command
	for range 5 {
		all = append(all, prepare(t, runAt(s, []string{"job"}, sh("echo in >>"+path+"; sleep 0.05; echo out >>"+path))...).start())
	}
	for _, c := range all {
		assert.Zero(t, c.code())
	}
	log, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("in\nout\n", 5), string(log))
}

// family is a script in which a child has a child, both of which report a
// signal.
func family(sig string) []string {
	young := fmt.Sprintf(`trap "echo young; exit 0" %s; echo ready; while :; do sleep 0.02; done`, sig)
	return sh(fmt.Sprintf(`trap 'echo old; exit 5' %s; sh -c '%s'; exit 9`, sig, young))
}

func TestRunSignalsReachTheGroup(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := prepare(t, runAt(s, []string{name}, family(name))...).start()
			c.says("ready\n")
			c.signal(sig)
			assert.Equal(t, 5, c.code())
			assert.Equal(t, "ready\nyoung\nold\n", c.out.String())

			c = prepare(t, runAt(s, []string{name}, sh("echo ready; exec sleep 60"))...).start()
			c.says("ready\n")
			c.signal(sig)
			assert.Equal(t, exit.Signal+int(sig), c.code())
			assert.Empty(t, c.err.String())
			assert.True(t, free(t, s, name))
		})
	}
}

func TestRunSignalToStoppedChild(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, sh("echo pid=$$ ; kill -STOP $$; exec sleep 60"))...).start()
	pid := c.number("pid")
	redistest.Until(t, "the child to stop", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(stat), ") T ")
	})
	assert.False(t, free(t, s, "job"))
	c.signal(syscall.SIGTERM)
	assert.Equal(t, 143, c.code())
}

func TestRunKeepsLockUntilChildHasEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	c := prepare(t, runAt(s, []string{"job"}, sh(`trap "echo asked; while [ ! -e `+gate+` ]; do sleep 0.01; done; exit 4" TERM; echo ready; while :; do sleep 0.01; done`))...).start()
	c.says("ready\n")
	c.signal(syscall.SIGTERM)
	c.says("asked\n")
	assert.False(t, free(t, s, "job"))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, 4, c.code())
	assert.True(t, free(t, s, "job"))
}

func TestRunKeepsLockUntilGroupHasEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	left := `(while [ ! -e ` + gate + ` ]; do sleep 0.01; done; echo left) & echo ready; exit 6`
	c := prepare(t, runAt(s, []string{"job"}, sh(left))...).start()
	c.says("ready\n")
	redistest.Until(t, "the remark", func() bool { return strings.Contains(c.err.String(), "left others of its group behind") })
	assert.False(t, free(t, s, "job"))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, 6, c.code())
	assert.Equal(t, "ready\nleft\n", c.out.String())

	// A signal does not leave it at asking.
	c = prepare(t, runAt(s, []string{"--kill-after", "0.1", "job"}, sh(`(trap "" TERM; while :; do sleep 0.01; done) & echo pid=$! ; exit 6`))...).start()
	pid := c.number("pid")
	redistest.Until(t, "the remark", func() bool { return strings.Contains(c.err.String(), "left others of its group behind") })
	c.signal(syscall.SIGTERM)
	assert.Equal(t, 6, c.code())
	gone(t, pid)
	assert.True(t, free(t, s, "job"))
}

// Whoever read what run says has gone.
func TestRunSaysItToNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	gate := filepath.Join(t.TempDir(), "gate")
	left := `(while [ ! -e ` + gate + ` ]; do sleep 0.01; done; echo left) 2>/dev/null & echo ready; exit 6`
	c := prepare(t, runAt(s, []string{"job"}, sh(left))...)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	c.cmd.Stderr = w
	c.start()
	require.NoError(t, w.Close())
	c.says("ready\n")
	select {
	case <-c.done:
		assert.Fail(t, "run has ended before the group")
	case <-time.After(1500 * time.Millisecond): // the remark comes after a second
	}
	assert.False(t, free(t, s, "job"))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, 6, c.code())
	assert.Equal(t, "ready\nleft\n", c.out.String())
	assert.True(t, free(t, s, "job"))
}

// What sudo starts is of a user whom run may not signal.
func TestRunKeepsLockForAnotherUser(t *testing.T) {
	t.Parallel()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Getuid() != 0 {
		t.Skip("it takes root and setpriv to be two users")
	}
	s := redistest.Start(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // for nobody
	copied := func(from, name string, mode os.FileMode) string {
		to := filepath.Join(dir, name)
		// Not by this process: what others start meanwhile would have the file open for
		// writing, and it could not be run.
		require.NoError(t, exec.Command("cp", from, to).Run())
		require.NoError(t, os.Chmod(to, mode))
		return to
	}
	gate := filepath.Join(dir, "gate")
	left := copied(setpriv, "sudo", os.ModeSetuid|0o755) + ` --reuid=0 sh -c 'echo uid=$(id -ru) ; while [ -d ` + dir + ` -a ! -e ` + gate + ` ]; do sleep 0.01; done'`
	c := prepare(t, runAt(s, []string{"job"}, sh(left+" & sleep 0.2; exit 6"))...)
	c.cmd.Path = copied(quick, "latchkey", 0o755)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c.start()
	if c.number("uid") != 0 {
		t.Skip("there are no other users here: " + dir + " is mounted nosuid")
	}
	redistest.Until(t, "the remark", func() bool { return strings.Contains(c.err.String(), "left others of its group behind") })
	assert.False(t, free(t, s, "job"))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, 6, c.code())
	assert.True(t, free(t, s, "job"))
}

func TestRunSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "HSET", "job", "somebody", "1")
	s.Do(t, "PEXPIRE", "job", "600000")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		c := prepare(t, runAt(s, []string{"job"}, []string{"echo", "ran"})...).start()
		redistest.Until(t, "the wait", func() bool {
			return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{job}")[1] == "1"
		})
		c.signal(syscall.SIGUSR1)
		c.signal(sig)
		assert.Equal(t, exit.Signal+int(sig), c.code())
		assert.Empty(t, c.out.String())
		assert.Empty(t, c.err.String())
		redistest.Until(t, "the subscription to end", func() bool {
			return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{job}")[1] == "0"
		})
	}
	assert.Equal(t, []string{"somebody"}, s.Do(t, "HKEYS", "job"))
}

func TestRunNohup(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t)
	c.cmd.Path = "/bin/sh"
	c.cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh", binary}, runAt(s, []string{"job"}, sh("echo ready; read x; echo $x"))...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	c.says("ready\n")
	c.signal(syscall.SIGHUP)
	_, err = stdin.Write([]byte("survived\n"))
	require.NoError(t, err)
	assert.Zero(t, c.code())
	assert.Equal(t, "ready\nsurvived\n", c.out.String())
}

func TestRunStdin(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, []string{"cat"})...)
	c.cmd.Stdin = strings.NewReader("one\ntwo\n")
	c.start()
	assert.Zero(t, c.code())
	assert.Equal(t, "one\ntwo\n", c.out.String())
}

func TestRunLoss(t *testing.T) {
	t.Parallel()
	const lease = 600 * time.Millisecond
	s := redistest.Start(t)
	client := latchkey.New(s.Client(t))
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	for name, lose := range map[string]func(t *testing.T, name string){
		"DEL": func(t *testing.T, name string) { s.Do(t, "DEL", name) },
		"ForceUnlock": func(t *testing.T, name string) {
			forced, err := rlock.New(client, name).ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, forced)
		},
		"successor": func(t *testing.T, name string) {
			s.Do(t, "DEL", name)
			s.Do(t, "HSET", name, "somebody", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := prepare(t, runAt(s, []string{"--lease", lease.String(), name}, family("TERM"))...).start()
			c.says("ready\n")
			start := time.Now()
			lose(t, name)
			assert.Equal(t, exit.Lost, c.code())
			assert.Less(t, time.Since(start), lease, "within a renewal")
			assert.Equal(t, "ready\nyoung\nold\n", c.out.String())
			assert.Contains(t, c.err.String(), fmt.Sprintf("latchkey: lost the lock %q; sh was stopped\n", name))
			if name == "successor" {
				assert.False(t, free(t, s, name), "it is not ours to give back")
			}
		})
	}
}

func TestRunLossOfRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"--lease", "0.5", "job"}, family("TERM"))...).start()
	c.says("ready\n")
	s.Freeze()
	defer s.Thaw()
	start := time.Now()
	c.says("young\n")
	assert.Less(t, time.Since(start), 2*time.Second)
	assert.Equal(t, exit.Lost, c.code())
}

func TestRunLossBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, sh("echo ready; read x; exit 3"))...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	c.says("ready\n")
	s.Do(t, "DEL", "job")
	require.NoError(t, stdin.Close())
	assert.Equal(t, exit.Lost, c.code(), "found out when it is given back")
	assert.Equal(t, "latchkey: lost the lock \"job\" while sh ran, which has ended with 3\n", c.err.String())
}

func TestRunLossKills(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	stubborn := `trap "" TERM; sh -c 'echo young=$$ ; while :; do sleep 0.02; done' & echo old=$$ ; while :; do sleep 0.02; done`
	c := prepare(t, runAt(s, []string{"--lease", "0.3", "--kill-after", "0.2", "job"}, sh(stubborn))...).start()
	old, young := c.number("old"), c.number("young")
	s.Do(t, "DEL", "job")
	start := time.Now()
	assert.Equal(t, exit.Lost, c.code())
	assert.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	gone(t, old)
	gone(t, young)
}

func TestRunHoldAtMost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, c := range map[string]struct {
		script []string
		out    string
	}{
		"obeys":  {family("TERM"), "ready\nyoung\nold\n"},
		"exits0": {sh(`trap "exit 0" TERM; echo ready; while :; do sleep 0.02; done`), "ready\n"},
		"killed": {sh(`trap "" TERM; echo ready; while :; do sleep 0.02; done`), "ready\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := execute(t, runAt(s, []string{"--hold-at-most", "0.5", "--kill-after", "0.3", name}, c.script)...)
			assert.Equal(t, exit.Timeout, code)
			assert.Equal(t, c.out, stdout)
			assert.Contains(t, stderr, fmt.Sprintf("latchkey: sh was stopped: it had held %q for 500ms\n", name))
			assert.True(t, free(t, s, name))
		})
	}
	code, _, _ := execute(t, runAt(s, []string{"--hold-at-most", "30", "job"}, sh("exit 2"))...)
	assert.Equal(t, 2, code)
}

func TestRunHoldAtLeast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const atLeast = 3 * time.Second // a busy machine needs a second to start the next one
	start := time.Now()
	code, _, _ := execute(t, runAt(s, []string{"--hold-at-least", atLeast.String(), "job"}, sh("exit 2"))...)
	assert.Equal(t, 2, code)
	code, _, _ = execute(t, runAt(s, []string{"-n", "job"}, []string{"true"})...)
	assert.Equal(t, exit.Conflict, code)
	code, _, _ = execute(t, runAt(s, []string{"-w", "10", "job"}, []string{"true"})...)
	assert.Zero(t, code)
	assert.GreaterOrEqual(t, time.Since(start), atLeast)
}

func TestRunLabel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"job"}, "@" + host + " sh$"},
		{[]string{"--label", "nightly backup", "job"}, " nightly backup$"},
		{[]string{"--label", "", "job"}, ""},
	} {
		p := prepare(t, runAt(s, c.flags, sh("echo holder=$LATCHKEY_HOLDER; read secret"))...)
		stdin, err := p.cmd.StdinPipe()
		require.NoError(t, err)
		p.start()
		p.says("\n")
		holder := strings.TrimPrefix(strings.TrimSpace(p.out.String()), "holder=")
		key := "latchkey_label:{job}:" + holder
		if c.want == "" {
			assert.Equal(t, "0", s.Do(t, "EXISTS", key)[0])
		} else {
			assert.Regexp(t, c.want, s.Do(t, "GET", key)[0])
		}
		require.NoError(t, stdin.Close())
		p.code()
		assert.Equal(t, "0", s.Do(t, "EXISTS", key)[0])
	}
}

func TestRunKilled(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"--lease", lease.String(), "job"}, sh("echo pid=$$ ; exec sleep 60"))...).start()
	pid := c.number("pid")
	c.signal(syscall.SIGKILL)
	gone(t, pid)
	left, err := strconv.Atoi(s.Do(t, "PTTL", "job")[0])
	require.NoError(t, err)
	assert.LessOrEqual(t, time.Duration(left)*time.Millisecond, lease)
	code, _, _ := execute(t, runAt(s, []string{"-w", "10", "job"}, []string{"true"})...)
	assert.Zero(t, code)
	assert.Equal(t, -1, c.code())
}

func TestRunUnlockFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"job"}, sh("echo ready; read x; exit 3"))...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	c.says("ready\n")
	s.Kill()
	require.NoError(t, stdin.Close())
	assert.Equal(t, 3, c.code(), "the child had the lock and has done its work")
	assert.Contains(t, c.err.String(), `latchkey: "job" could not be given back, and ends with its lease: Redis at `)
}

func TestRunDatabase(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := prepare(t, runAt(s, []string{"--db", "3", "job"}, []string{"cat"})...)
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.start()
	rdb := s.Client(t, func(o *redis.Options) { o.DB = 3 })
	redistest.Until(t, "the lock in its database", func() bool { return rdb.HLen(t.Context(), "job").Val() == 1 })
	require.NoError(t, stdin.Close())
	assert.Zero(t, c.code())
}

func TestRunCluster(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t, 3)
	for _, name := range []string{"a", "b", "c", "{x}y"} { // on several nodes
		code, stdout, stderr := execute(t, "-u", "redis://"+cl.Nodes[0].Addr, "--cluster", "run", "-w", "5", name, "echo", "ran")
		assert.Zero(t, code, stderr)
		assert.Equal(t, "ran\n", stdout)
	}
	code, _, stderr := execute(t, "-u", "redis://"+cl.Nodes[0].Addr, "--cluster", "demo", "--duration", "0.1", "--workers", "8")
	assert.Zero(t, code, stderr)
	for _, n := range cl.Nodes {
		leavesNothing(t, n)
	}
}

// detach starts a command in a session of its own, which has no terminal.
func detach(c *command) { c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
