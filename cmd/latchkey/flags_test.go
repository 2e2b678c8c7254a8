package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0.2": 200 * time.Millisecond, "3": 3 * time.Second, ".5": 500 * time.Millisecond,
		"200ms": 200 * time.Millisecond, "1m30s": 90 * time.Second, "1e2": 100 * time.Second,
	} {
		d, err := parseDuration(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "x", "-1", "-1s", "nan", "inf", "1e30", "0x", "1 s"} {
		_, err := parseDuration(text)
		assert.Error(t, err, text)
	}
}

func TestWithoutPasswords(t *testing.T) {
	for in, want := range map[string]string{
		"redis://host:1/2":                        "redis://host:1/2",
		"redis://:pw@host:1/2":                    "redis://host:1/2",
		"rediss://me:pw@host:1?addr=b:2":          "rediss://host:1?addr=b:2",
		"redis://pw@host":                         "redis://host",
		"redis://host?password=pw&addr=b:2":       "redis://host?addr=b%3A2",
		"unix://me:pw@/run/redis.sock?db=1":       "unix:///run/redis.sock?db=1",
		"redis://me@host?sentinel_password=pw":    "redis://host",
		"redis://:p/w@host":                       "",
		"redis://:1#w@host":                       "",
		"redis:pw@host":                           "",
		"redis://:%zz@host":                       "",
		"redis://u:1/w@host":                      "",
		"redis://host:6379/0?client_name=compass": "redis://host:6379/0?client_name=compass",
	} {
		got := withoutPasswords([]string{"A=1", "REDIS_URL=" + in, "REDISCLI_AUTH=pw", "B="})
		if want == "" {
			assert.Equal(t, []string{"A=1", "B="}, got, in)
		} else {
			assert.Equal(t, []string{"A=1", "REDIS_URL=" + want, "B="}, got, in)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	assert.Zero(t, h.quantile(0.5))
	assert.Zero(t, h.max())
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	assert.InEpsilon(t, 500*time.Millisecond, h.quantile(0.5), 1.0/16)
	assert.InEpsilon(t, 990*time.Millisecond, h.quantile(0.99), 1.0/16)
	assert.Equal(t, time.Second, h.quantile(1))
	assert.Equal(t, time.Second, h.max())

	last := -1
	for shift := range 63 {
		for _, d := range []time.Duration{1<<shift - 1, 1 << shift, 1<<shift + time.Duration(rand.Int64N(1<<shift))} {
			b := bucket(d)
			assert.GreaterOrEqual(t, b, last, d)
			assert.Less(t, b, buckets)
			assert.GreaterOrEqual(t, upper(b), d)
			assert.LessOrEqual(t, upper(b)-d, d/16, d)
			last = b
		}
	}
}

func TestDefaultLabel(t *testing.T) {
	assert.Regexp(t, "^[^@]+@[^ ]+ cmd$", defaultLabel("cmd"))
	long := make([]byte, 0, 4096)
	for len(long) < 4000 {
		long = append(long, "ü"...)
	}
	label := defaultLabel(string(long))
	assert.LessOrEqual(t, len(label), maxLabel)
	assert.Greater(t, len(label), maxLabel-2)
	assert.Regexp(t, "ü$", label)
}

func TestVersion(t *testing.T) {
	code, stdout, _ := execute(t, "version")
	assert.Zero(t, code)
	assert.Regexp(t, `^latchkey \S+ .*go1\S* \w+/\w+\n$`, stdout)
	v := decoded[versionInfo](t, "version")
	assert.Equal(t, v.String()+"\n", stdout)
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, stderr := execute(t, "completion", shell)
		assert.Zero(t, code, stderr)
		assert.Contains(t, stdout, "latchkey")
	}
	code, stdout, _ := execute(t, "__complete", "f")
	assert.Zero(t, code)
	assert.Contains(t, stdout, "force-unlock\t")
	_, stdout, _ = execute(t, "__complete", "ls", "--kind", "")
	assert.Contains(t, stdout, "permitsemaphore\n")
}

// Every command says what it does, and those that show something can do so in
// JSON.
func TestCommands(t *testing.T) {
	for _, cmd := range leaves(newRoot()) {
		name := cmd.CommandPath()
		assert.NotEmpty(t, cmd.Short, name)
		if cmd.Name() != "run" && cmd.Parent().Name() != "completion" {
			assert.NotNil(t, cmd.Flags().Lookup("json"), name)
		}
	}
	code, stdout, _ := execute(t, "help")
	assert.Zero(t, code)
	for _, name := range []string{"run", "ls", "top", "show", "waiters", "force-unlock", "sem", "latch", "doctor", "bench", "demo", "completion", "version"} {
		assert.Regexp(t, `\n  `+name+` +[A-Z]`, stdout)
	}
}
