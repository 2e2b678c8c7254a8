package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A pipedProcess is a process that is talked to in lines.
type pipedProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
	timer  *time.Timer
	ended  bool
}

// startPiped starts a process, which is killed when it has not ended after limit.
func startPiped(cmd *exec.Cmd, limit time.Duration) (*pipedProcess, io.Reader, error) {
	p := &pipedProcess{cmd: cmd}
	cmd.Stderr = &p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	p.in = in
	p.timer = time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	return p, out, nil
}

// fault adds what the process had to say before it ended.
func (p *pipedProcess) fault(err error) error {
	p.end()
	text := strings.Join(strings.Fields(p.stderr.String()), " ")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	if text == "" {
		return fmt.Errorf("the process has ended (killed, if it took too long): %w", err)
	}
	return fmt.Errorf("%s", text)
}

// end lets the process end, and kills it when it does not.
func (p *pipedProcess) end() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.in.Close()
	p.timer.Reset(5 * time.Second)
	_ = p.cmd.Wait()
	p.timer.Stop()
}

// limit is how long a process may take for all of the task.
func (t *task) limit() time.Duration {
	return 2*t.For + 2*t.Patience + 15*time.Second + time.Duration(t.Goroutines)*2*time.Millisecond
}

// A self is this program, started with a task.
type self struct{ *pipedProcess }

func startSelf(cmd *exec.Cmd, t *task) (worker, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p, out, err := startPiped(cmd, t.limit())
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return self{p}, nil
}

func (s self) ready() error {
	var word string
	if err := s.out.Decode(&word); err != nil {
		return s.fault(err)
	}
	return nil
}

func (s self) begin() error {
	_, err := fmt.Fprintln(s.in, "begin")
	return err
}

func (s self) outcome() (*outcome, error) {
	o := &outcome{}
	if err := s.out.Decode(o); err != nil {
		return nil, s.fault(err)
	}
	return o, nil
}
