package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"
)

// childVariable is set, to a task, in the processes this program starts.
const childVariable = "LATCHKEY_COMPARE_TASK"

// What is taken and given back.
const (
	objectLock      = "lock"
	objectFair      = "fair"
	objectRead      = "read"
	objectSemaphore = "semaphore"
)

// A task is what one process of a turn has to do.
type task struct {
	Work       string
	Side       string
	Object     string
	Addrs      []string
	Cluster    bool
	Process    int // 0, 1, ...
	Goroutines int // of this process
	Names      int // 0: all goroutines share one
	Limit      int // how many may be inside at once; 0: any number
	For        time.Duration
	Patience   time.Duration // for what has not come back at the end
	Lease      time.Duration // the watchdog's; 0: the default
	Page       string        // file of what the processes share

	wire *wire
}

// name returns the name that goroutine i of the process uses.
func (t *task) name(i int) string {
	if t.Names == 0 {
		return "compare"
	}
	return "compare:" + strconv.Itoa((t.Process*t.Goroutines+i)%t.Names)
}

// An outcome is what a process has measured.
type outcome struct {
	Ops      int64 // that ended in time
	Changed  int64 // of them, those whose predecessor was another goroutine
	Elapsed  time.Duration
	Times    histogram
	Max      time.Duration
	Sent     int64 // commands; -1 where that is unknown
	CPU      time.Duration
	Open     int // connections to Redis; -1 where that is unknown
	Routines int
	Heap     int64 // bytes, with stacks
	Stacks   int64 // bytes
	Allocs   int64
	Stuck    int64 // had not come back when patience was at its end
	Overlaps int64 // were inside with too many others
	Extra    map[string]float64
}

// works are the kinds of work. Each calls ready when everything is in place, and
// begins to measure when that returns.
var works = map[string]func(ctx context.Context, t *task, ready func() error) (*outcome, error){
	"loop":  loop,
	"wake":  wakeUps,
	"wait":  crowd,
	"holds": holds,
	"latch": latch,
}

// child is a process that this program has started. It says when it is ready,
// begins when it is told to, answers with its outcome, and ends with its stdin.
func child(text string) error {
	t := task{wire: &wire{}}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	o, err := works[t.Work](context.Background(), &t, func() error {
		if err := out.Encode("ready"); err != nil {
			return err
		}
		_, err := in.ReadString('\n')
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.Side, err)
	}
	if err := out.Encode(o); err != nil {
		return err
	}
	// The connections are counted until then; the end of the process closes them.
	_, err = in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// A meter tells what the process uses from its start to its end.
type meter struct {
	t    *task
	cpu  time.Duration
	sent int64
	mem  runtime.MemStats
	at   time.Time
}

func (t *task) meter() *meter {
	m := &meter{t: t}
	runtime.ReadMemStats(&m.mem)
	m.cpu, m.sent, m.at = cpuTime(), t.wire.commands.Load(), time.Now()
	return m
}

// stop puts what was used into o. Heap and goroutines are not a matter of what
// was used but of what is there: see look.
func (m *meter) stop(o *outcome) {
	o.Elapsed, o.CPU, o.Sent = time.Since(m.at), cpuTime()-m.cpu, m.t.wire.commands.Load()-m.sent
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	o.Allocs = int64(now.Mallocs - m.mem.Mallocs)
	switch {
	case m.t.Side == "etcd":
		o.Sent = unknown
	case m.t.bare():
		o.Sent = askServer
	}
}

// look puts into o what is there now.
func (t *task) look(o *outcome) {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	o.Heap, o.Stacks = int64(now.HeapInuse+now.StackInuse), int64(now.StackInuse)
	o.Routines, o.Open = runtime.NumGoroutine(), int(t.wire.open.Load())
	if t.Side == "etcd" {
		o.Open = -1
	}
}
