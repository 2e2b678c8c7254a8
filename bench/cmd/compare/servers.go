package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A rig is what redistest needs of a test, so that its servers run here too.
type rig struct {
	testing.TB
	cleanups []func()
}

type rigFailure string

func (r *rig) Helper()                   {}
func (r *rig) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *rig) Fatal(args ...any)         { panic(rigFailure(fmt.Sprint(args...))) }
func (r *rig) Fatalf(f string, a ...any) { panic(rigFailure(fmt.Sprintf(f, a...))) }
func (r *rig) Skip(args ...any)          { panic(rigFailure(fmt.Sprint(args...))) }

func (r *rig) TempDir() string {
	dir, err := os.MkdirTemp("", "latchkey-compare-")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// end undoes what was set up, the last first.
func (r *rig) end() {
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		f()
	}
}

// catch makes an error of what a rig has failed with.
func catch(err *error) {
	switch v := recover().(type) {
	case nil:
	case rigFailure:
		*err = errors.Join(*err, errors.New(string(v)))
	default:
		panic(v)
	}
}

// servers are one redis-server, or the masters of a cluster.
type servers struct {
	r     *rig
	nodes []*redistest.Server
}

func (s servers) addrs() (addrs []string) {
	for _, n := range s.nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

func (s servers) flush() {
	for _, n := range s.nodes {
		n.Do(s.r, "FLUSHALL")
	}
}

// used is what servers have done since they started.
type used struct {
	cpu         time.Duration
	in, out     int64            // bytes
	executed    int64            // commands, those of scripts too
	calls       map[string]int64 // the same, by name
	connections int              // now, without the one that asks
	answers     int64            // bytes of what told this, which are not yet in out
}

// clientOnly are commands that scripts do not call, as far as a side sends them.
var clientOnly = []string{"eval", "evalsha", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "ping", "script|load"}

// sent returns how many of the commands the clients of a side have sent.
func (u *used) sent(side string) (n int64) {
	for _, name := range clientOnly {
		n += u.calls[name]
	}
	switch side { // whose scripts do not call these either
	case "floor-set":
		n += u.calls["set"]
	case "floor-blpop":
		n += u.calls["blpop"] + u.calls["rpush"]
	}
	return n
}

func (s servers) used() (u used) {
	u.calls = map[string]int64{}
	for _, n := range s.nodes {
		text := n.Do(s.r, "INFO", "all")[0]
		fields := infoFields(text)
		number := func(name string) float64 {
			x, _ := strconv.ParseFloat(fields[name], 64)
			return x
		}
		u.cpu += time.Duration((number("used_cpu_sys") + number("used_cpu_user")) * 1e9)
		u.in += int64(number("total_net_input_bytes"))
		u.out += int64(number("total_net_output_bytes"))
		u.answers += int64(len(text))
		u.connections += int(number("connected_clients")) - 1
		for name, value := range fields {
			name, ok := strings.CutPrefix(name, "cmdstat_")
			if !ok || name == "info" || name == "flushall" {
				continue
			}
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			count, _ := strconv.ParseInt(calls, 10, 64)
			u.executed += count
			u.calls[name] += count
		}
	}
	return u
}

func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func (s servers) version() string {
	return infoFields(s.nodes[0].Do(s.r, "INFO", "server")[0])["redis_version"]
}
