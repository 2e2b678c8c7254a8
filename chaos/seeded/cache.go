package seeded

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cacheEnv names the variable by which a process knows that it is the build cache of
// one bug: the directory for what is new.
const cacheEnv = "LATCHKEY_SEEDED_CACHE"

// Cache is to be called first by a program that seeds bugs: it starts itself as the
// build cache of each, which shows the ordinary one and keeps what is new apart. So
// what is compiled for a bug is gone with it. In such a process it does not return.
func Cache() {
	dir := os.Getenv(cacheEnv)
	if dir == "" {
		return
	}
	if err := serveCache(os.Stdin, os.Stdout, dir, os.Getenv("GOCACHE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// withCache makes cmd use such a cache in dir.
func withCache(ctx context.Context, cmd *exec.Cmd, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	base, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), "GOCACHEPROG="+self, cacheEnv+"="+dir, "GOCACHE="+strings.TrimSpace(string(base)))
	return nil
}

// A cacheRequest is what the go command asks; see its package cacheprog.
type cacheRequest struct {
	ID                 int64
	Command            string
	ActionID, OutputID []byte
	BodySize           int64
}

type cacheAnswer struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

// serveCache answers the go command until it says that it is done.
func serveCache(r io.Reader, w io.Writer, dir, base string) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	if err := out.Encode(cacheAnswer{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var q cacheRequest
		if err := in.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		a := cacheAnswer{}
		switch q.Command {
		case "get":
			a = look(dir, q.ActionID)
			if a.Miss {
				a = look(base, q.ActionID)
			}
		case "put":
			var body []byte
			if q.BodySize > 0 {
				if err := in.Decode(&body); err != nil {
					return err
				}
			}
			var err error
			if a, err = keep(dir, q, body); err != nil {
				a = cacheAnswer{Err: err.Error()}
			}
		}
		a.ID = q.ID
		if err := out.Encode(a); err != nil || q.Command == "close" {
			return err
		}
	}
}

// entry returns where a cache has an entry, as the go command names it.
func entry(dir string, id []byte, kind string) string {
	name := hex.EncodeToString(id)
	return filepath.Join(dir, name[:2], name+kind)
}

// look looks for an entry. What it cannot read is a miss.
func look(dir string, action []byte) cacheAnswer {
	miss := cacheAnswer{Miss: true}
	text, err := os.ReadFile(entry(dir, action, "-a"))
	f := strings.Fields(string(text))
	if err != nil || len(f) != 5 || f[0] != "v1" {
		return miss
	}
	id, err := hex.DecodeString(f[2])
	if err != nil || len(id) == 0 {
		return miss
	}
	ns, err := strconv.ParseInt(f[4], 10, 64)
	if err != nil {
		return miss
	}
	path := entry(dir, id, "-d")
	info, err := os.Stat(path)
	if err != nil || strconv.FormatInt(info.Size(), 10) != f[3] {
		return miss
	}
	at := time.Unix(0, ns)
	return cacheAnswer{OutputID: id, Size: info.Size(), Time: &at, DiskPath: path}
}

// keep keeps an entry.
func keep(dir string, q cacheRequest, body []byte) (cacheAnswer, error) {
	path, action := entry(dir, q.OutputID, "-d"), entry(dir, q.ActionID, "-a")
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.MkdirAll(filepath.Dir(action), 0o700))
	if err == nil {
		err = os.WriteFile(path, body, 0o600)
	}
	if err == nil {
		text := fmt.Sprintf("v1 %x %x %20d %20d\n", q.ActionID, q.OutputID, len(body), time.Now().UnixNano())
		err = os.WriteFile(action, []byte(text), 0o600)
	}
	return cacheAnswer{DiskPath: path}, err
}
