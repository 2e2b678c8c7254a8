// Package clock moves clocks: that of a redis-server, by a library put before the C
// library's, and those of a child process in Go, which does not ask the C library.
//
// Either way a file says by how much, and may be changed at any time.
package clock

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// env names the variable with the path of the file.
const env = "SKEW_FILE"

// A File says by how much the clocks of a process are off.
type File string

// NewFile makes a file in dir with which all clocks are right.
func NewFile(dir string) (File, error) {
	f := File(filepath.Join(dir, "skew"))
	return f, os.WriteFile(string(f), make([]byte, size), 0o600)
}

// size is that of the file: ms for the wall clock, and ms for the monotonic clock,
// which only Go processes heed; 8 bytes each.
const size = 16

// Env is what the environment of the process needs.
func (f File) Env() string { return env + "=" + string(f) }

// Wall puts the wall clock off by d, a whole number of milliseconds.
func (f File) Wall(d time.Duration) error { return f.set(0, d) }

// Mono puts the monotonic clock off by d. It must not go back for the process: only
// while it is stopped can it be put back, by less than it has been.
func (f File) Mono(d time.Duration) error { return f.set(1, d) }

// Of returns the file of a server that was started within [Servers].
func Of(s *redistest.Server) File { return File(filepath.Join(s.Dir, "skew")) }

//go:embed shim.c.txt
var shim []byte

// built is the library and a script that runs redis-server with it, built once.
var built struct {
	sync.Mutex
	wrapper string
	err     error
}

// build returns the path of the script. The file is in the directory of the server,
// and outlives a restart.
func build() (string, error) {
	built.Lock()
	defer built.Unlock()
	if built.wrapper != "" || built.err != nil {
		return built.wrapper, built.err
	}
	server, ok := redistest.Find()
	if !ok {
		return "", fmt.Errorf("redis-server not found")
	}
	dir, err := os.MkdirTemp("", "latchkey-clock-")
	if err != nil {
		return "", err
	}
	source, lib, wrapper := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so"), filepath.Join(dir, "redis-server")
	script := fmt.Sprintf("#!/bin/sh\n[ -f skew ] || head -c %d /dev/zero >skew\nLD_PRELOAD=%s %s=skew exec %s \"$@\"\n", size, lib, env, server)
	if err = os.WriteFile(source, shim, 0o600); err == nil {
		err = os.WriteFile(wrapper, []byte(script), 0o700)
	}
	if err == nil {
		var out []byte
		if out, err = exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", lib, source).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		built.err = fmt.Errorf("the clock shim: %w", err)
		return "", built.err
	}
	built.wrapper = wrapper
	return wrapper, nil
}

// Remove removes what Servers has built.
func Remove() {
	built.Lock()
	defer built.Unlock()
	if built.wrapper != "" {
		_ = os.RemoveAll(filepath.Dir(built.wrapper))
		built.wrapper = ""
	}
}

// starting is held while servers are started under the shim.
var starting sync.Mutex

// ServersMovable reports whether the clock of a server can be moved: not of one that is
// linked statically, since it loads no library.
func ServersMovable() bool {
	server, ok := redistest.Find()
	return !ok || redistest.LoadsLibraries(server) // who starts none says so
}

// Servers runs start, which starts servers, so that their clocks can be moved. It
// needs a C compiler.
func Servers(start func()) error {
	wrapper, err := build()
	if err != nil {
		return err
	}
	starting.Lock()
	defer starting.Unlock()
	// A server that somebody else starts in this moment gets the same, and never moves.
	before, had := os.LookupEnv("REDIS_SERVER")
	_ = os.Setenv("REDIS_SERVER", wrapper)
	defer func() {
		if had {
			_ = os.Setenv("REDIS_SERVER", before)
		} else {
			_ = os.Unsetenv("REDIS_SERVER")
		}
	}()
	start()
	return nil
}
