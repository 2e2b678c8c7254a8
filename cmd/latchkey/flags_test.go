package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

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
		if cmd.Name() != "run" && cmd.Name() != "serve" && cmd.Parent().Name() != "completion" {
			assert.NotNil(t, cmd.Flags().Lookup("json"), name)
		}
	}
	code, stdout, _ := execute(t, "help")
	assert.Zero(t, code)
	for _, name := range []string{"run", "acquire", "extend", "release", "ls", "top", "show", "waiters", "explain", "history", "jobs", "leaders", "force-unlock", "sem", "latch", "serve", "doctor", "bench", "demo", "completion", "version"} {
		assert.Regexp(t, `\n  `+name+` +[A-Z]`, stdout)
	}
}
