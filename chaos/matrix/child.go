package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/chaos/clock"
)

// childEnv tells a child process what to do.
const childEnv = "LATCHKEY_MATRIX_CHILD"

// An errand is that: to hold one object of each column.
type errand struct {
	Addr, Row, Columns string
	Others             []string
	Lease              time.Duration
}

// A told is what a child says of one column.
type told struct {
	Err   string
	Token int64
	Lost  int64 // when it was told that it is lost, ns since the epoch; 0: not
	Gave  string
	At    int64         // when it asked to give it back
	Apart time.Duration // by how much its wall clock has gone ahead of its monotonic one
}

// Child does the work of a child process and ends the program, if it was started as
// one: it holds an object of each column, says so, and on each line of its input it
// does what that says: burn the processors, or give all back and say how that went.
func Child() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	if err := clock.Child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	e.run()
	os.Exit(0)
}

func (e errand) run() {
	start := time.Now()
	ctx := context.Background()
	r := &rig{TB: nil, ctx: ctx, row: e.Row, lease: e.Lease}
	s := side{rdb: redis.NewClient(&redis.Options{Addr: e.Addr})}
	s.client = newClient(r, s.rdb)
	for _, addr := range e.Others {
		s.others = append(s.others, newClient(r, redis.NewClient(&redis.Options{Addr: addr})))
	}
	// mu guards the map.
	var mu sync.Mutex
	all := map[string]*told{}
	grips := map[string]*grip{}
	for _, column := range []byte(e.Columns) {
		t := newThing(column, r.name(column, "held"), s)
		said := &told{}
		all[string(column)] = said
		err := t.prepare(ctx)
		var g *grip
		if err == nil {
			g, err = t.take(ctx)
		}
		if err != nil {
			said.Err = err.Error()
			continue
		}
		said.Token = g.token
		grips[string(column)] = g
		if g.lost != nil {
			go func() {
				<-g.lost
				mu.Lock()
				defer mu.Unlock()
				if said.At == 0 {
					said.Lost = time.Now().UnixNano()
				}
			}()
		}
	}
	say := func() {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(all)
	}
	say()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "burn":
			burn(3 * time.Second)
		case "give":
			for column, g := range grips {
				mu.Lock()
				now := time.Now()
				all[column].At, all[column].Apart = now.UnixNano(), now.Round(0).Sub(start.Round(0))-now.Sub(start)
				mu.Unlock()
				err := g.give(ctx)
				mu.Lock()
				all[column].Gave = string(letter(err))
				mu.Unlock()
			}
		}
		say()
	}
}

// burn keeps the processors busy, and the garbage collector.
func burn(d time.Duration) {
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var keep [][]byte
			for time.Now().Before(end) {
				keep = append(keep, make([]byte, 1<<16))
				if len(keep) > 100 {
					keep = nil
				}
			}
		})
	}
	wg.Wait()
}

// A child is a process that holds an object of each column.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// child starts one, and returns when it holds what it is to hold.
func (r *rig) child(columns []byte, env ...string) *child {
	e := errand{Addr: r.server.Addr, Row: r.row, Columns: string(columns), Lease: r.lease}
	for _, o := range r.stable {
		e.Others = append(e.Others, o.Addr)
	}
	text, err := json.Marshal(e)
	if err != nil {
		r.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	c := &child{cmd: exec.Command(self)}
	c.cmd.Env = append(append(os.Environ(), childEnv+"="+string(text)), env...)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	c.in, c.out = in, json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = c.cmd.Process.Signal(syscall.SIGCONT)
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	for column, said := range c.hear(r) {
		if said.Err != "" {
			r.Fatalf("the child, %s: %s", column, said.Err)
		}
	}
	return c
}

// hear returns what the child says next.
func (c *child) hear(r *rig) map[string]told {
	all := map[string]told{}
	if err := c.out.Decode(&all); err != nil {
		r.Fatalf("the child says nothing: %v", err)
	}
	return all
}

// ask sends the child a line and returns its answer.
func (c *child) ask(r *rig, line string) map[string]told {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		r.Fatal(err)
	}
	return c.hear(r)
}

func (c *child) signal(r *rig, s syscall.Signal) {
	if err := c.cmd.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
	r.happened(1)
}
