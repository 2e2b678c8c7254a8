package topology

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// syncedSource notes in the file "synced" what each file had when it went to disk.
//
//go:embed testdata/synced.c.txt
var syncedSource []byte

// withSynced returns a program that runs path and writes that file.
func withSynced(t *testing.T, path string) string {
	t.Helper()
	if !redistest.LoadsLibraries(path) {
		t.Skip("this server is linked statically, and cannot be watched")
	}
	dir := t.TempDir()
	source, lib, wrapper := filepath.Join(dir, "synced.c"), filepath.Join(dir, "synced.so"), filepath.Join(dir, "server")
	require.NoError(t, os.WriteFile(source, syncedSource, 0o600))
	cc, err := exec.LookPath("cc")
	if err != nil {
		redistest.Missing(t, "no C compiler")
	}
	out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", lib, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	script := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%s exec %s \"$@\"\n", lib, path)
	require.NoError(t, os.WriteFile(wrapper, []byte(script), 0o700))
	return wrapper
}

// cutPower kills a server of withSynced and removes from its files what was not
// on disk.
func cutPower(t *testing.T, s *redistest.Server) (lost int64) {
	t.Helper()
	s.Kill()
	note, err := os.ReadFile(filepath.Join(s.Dir, "synced"))
	if !errors.Is(err, fs.ErrNotExist) { // nothing has been
		require.NoError(t, err)
	}
	synced := map[uint64]int64{}
	for line := range strings.Lines(string(note)) {
		var file uint64
		var size int64
		if _, err := fmt.Sscan(line, &file, &size); err == nil {
			synced[file] = size
		}
	}
	logs, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(t, err)
	if len(logs) == 0 { // before Redis 7.0; that of s need not be the one of the other tests
		logs = []string{filepath.Join(s.Dir, "appendonly.aof")}
	}
	require.NotEmpty(t, logs)
	for _, name := range logs {
		stat, err := os.Stat(name)
		require.NoError(t, err)
		size := synced[stat.Sys().(*syscall.Stat_t).Ino]
		lost += stat.Size() - size
		require.NoError(t, os.Truncate(name, size))
	}
	return lost
}

// A lock that was granted with AckDisk exists after a power cut, at the primary
// and at the replica. Both use appendfsync always: with everysec, servers
// before redis/redis#13793 (Valkey 8.0.1 is one) confirm too early, and this
// test then sometimes fails at the replica.
func TestAckDiskAfterPowerCut(t *testing.T) {
	path, ok := withWaitAOF(t)
	if !ok {
		return
	}
	path = withSynced(t, path)
	always := []string{"--appendonly", "yes", "--appendfsync", "always"}
	primary := redistest.StartProgram(t, path, always...)
	primary.Allow(t, "waitaof")
	replica := redistest.StartReplica(t, primary, always...)
	held := func(s *redistest.Server, name string) bool { return s.Do(t, "EXISTS", name)[0] == "1" }

	c := newClient(t, primary.Client(t), latchkey.WithReplicaAck(1, 10*time.Second, latchkey.AckDisk))
	replica.Freeze() // so that it has nothing yet when the primary has
	granted := waitFor(t.Context(), "rlock", c, "safe")
	redistest.Until(t, "the primary to have it", func() bool { return held(primary, "safe") })
	select {
	case <-granted:
		require.FailNow(t, "granted without the replica")
	default:
	}
	replica.Thaw()
	receive(t, granted)
	cutPower(t, primary)
	cutPower(t, replica)
	primary.Restart(t)
	require.True(t, held(primary, "safe"))
	replica.Restart(t, "--replicaof", "no", "one") // it must not learn it anew
	require.True(t, held(replica, "safe"))
}

// Without AckDisk a power cut loses a grant if the server writes to disk once a
// second.
func TestPowerCut(t *testing.T) {
	path, ok := redistest.Find()
	if !ok {
		redistest.Missing(t, "redis-server not found")
	}
	s := redistest.StartProgram(t, withSynced(t, path), everySecond...)
	c := newClient(t, s.Client(t))
	for try := 0; ; try++ {
		require.Less(t, try, 10, "never is anything lost")
		name := fmt.Sprint("unsafe ", try)
		_, err := rlock.New(c, name).Lock(t.Context(), latchkey.Lease(time.Hour))
		require.NoError(t, err)
		lost := cutPower(t, s)
		s.Restart(t)
		if s.Do(t, "EXISTS", name)[0] == "0" {
			require.Positive(t, lost)
			return
		}
	}
}
