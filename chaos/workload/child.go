package workload

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/chaos/clock"
	"github.com/latchkey-go/latchkey/chaos/history"
)

// childConfig names the variable by which a process knows that it is a child.
const childConfig = "LATCHKEY_CHAOS_CHILD"

// A message is what a child tells its parent.
type message struct {
	Entry   *history.Entry
	Write   *Write
	Skew    *time.Duration // by how much its wall clock is off
	Slowest Slow
	Err     string
	End     bool
}

// Child is to be called first by a program that starts children of itself. In a child
// it does not return.
func Child() {
	text := os.Getenv(childConfig)
	if text == "" {
		return
	}
	err := clock.Child()
	if err == nil {
		err = child(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the parent closes it, also by dying
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var mu sync.Mutex
	out := gob.NewEncoder(os.Stdout)
	tell := func(m message) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(m) // without a parent, stdin says so
	}
	if cfg.Clocks {
		go watchClock(ctx, func(d time.Duration) { tell(message{Skew: &d}) })
	}
	rec := &history.Recorder{Tap: func(e history.Entry) { tell(message{Entry: &e}) }}
	slowest, err := Run(ctx, cfg, rec, func(w Write) { tell(message{Write: &w}) })
	last := message{Slowest: slowest, End: true}
	if err != nil {
		last.Err = err.Error()
	}
	tell(last)
	return nil
}

// watchClock tells by how much the wall clock has moved against that of the history,
// each time it does.
func watchClock(ctx context.Context, tell func(time.Duration)) {
	apart := func() time.Duration { return time.Duration(time.Now().UnixNano() - history.Now()) }
	start := apart()
	for told := time.Duration(-1); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if d := apart() - start; (d-told).Abs() > nearly/2 || told == -1 {
			told = d
			tell(d)
		}
	}
}

// nearly is how exactly a clock must have stepped.
const nearly = 40 * time.Millisecond

// A Process is a party in a process of its own.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	done   chan struct{} // closed when it is gone and all it has told is recorded
	killed atomic.Bool
	last   message
	err    error

	clocks  clock.File // empty if they cannot be moved
	skewed  atomic.Int64
	cleanUp func()
}

// Start runs this program again, as a party that works until Stop. With clocks, its
// wall clock can be moved.
func Start(cfg Config, rec *history.Recorder, offer func(Write), clocks bool) (_ *Process, err error) {
	cfg.Clocks = clocks
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(exe), done: make(chan struct{}), cleanUp: func() {}}
	p.cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	if clocks {
		dir, err := os.MkdirTemp("", "latchkey-clock-")
		if err != nil {
			return nil, err
		}
		p.cleanUp = func() { _ = os.RemoveAll(dir) }
		if p.clocks, err = clock.NewFile(dir); err != nil {
			p.cleanUp()
			return nil, err
		}
		p.cmd.Env = append(p.cmd.Env, p.clocks.Env())
	}
	defer func() {
		if err != nil {
			p.cleanUp()
		}
	}()
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		ids := map[int64]int64{}
		for in := gob.NewDecoder(stdout); ; {
			var m message
			if err := in.Decode(&m); err != nil {
				break
			}
			switch {
			case m.Entry != nil:
				rec.Feed(ids, *m.Entry)
			case m.Write != nil:
				offer(*m.Write)
			case m.Skew != nil:
				p.skewed.Store(int64(*m.Skew))
			case m.End:
				p.last = m
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
		p.err = p.cmd.Wait()
		p.cleanUp()
	}()
	return p, nil
}

// Stop lets the party end its work, and waits until it is gone.
func (p *Process) Stop() (slowest Slow, err error) {
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.Kill()
		return Slow{}, errors.New("a child did not end within 20 s")
	}
	switch {
	case p.killed.Load():
		return Slow{}, nil
	case p.err != nil:
		return Slow{}, fmt.Errorf("a child ended with %w:\n%s", p.err, p.stderr.String())
	case !p.last.End:
		return Slow{}, errors.New("a child ended before its time")
	case p.last.Err != "":
		return p.last.Slowest, errors.New(p.last.Err)
	}
	return p.last.Slowest, nil
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.Thaw()
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Skew puts the wall clock of the process off by d.
func (p *Process) Skew(d time.Duration) error {
	if p.clocks == "" {
		return errors.New("the clocks of this child cannot be moved")
	}
	return p.clocks.Wall(d)
}

// Skewed says whether the process has seen its wall clock off by d. It waits for that
// for a second.
func (p *Process) Skewed(d time.Duration) bool {
	for range 200 {
		if (time.Duration(p.skewed.Load()) - d).Abs() < nearly {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// Dead says whether the process was killed.
func (p *Process) Dead() bool {
	select {
	case <-p.done:
		return p.killed.Load()
	default:
		return false
	}
}
