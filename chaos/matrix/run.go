package matrix

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey/chaos/clock"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A row is one kind of fault and how it is played.
type row struct {
	id    string
	fast  bool // part of the short run
	long  bool // the fault outlasts the lease
	lossy bool // the server may forget what it knew

	args  []string      // of the server
	limit time.Duration // for taking what is free during the fault; 4 s if zero
	lease time.Duration // shortLease if zero
	late  time.Duration // by how much a waiter may be later than else
	// start sets the stage; nil for one server with args.
	start func(r *rig)
	// fault does it, calls begun when it acts, and returns when it is over.
	fault func(r *rig, begun func())
	// play is a scene of the row's own, in place of the usual one.
	play func(r *rig, w *row, columns []byte) map[byte]*sight

	want   want
	except map[byte]want
	// remarks say, of columns or with 0 of all, where this is not what the plan has.
	remarks map[byte]string
	// absent says of columns, or with 0 of all, why they cannot be played here.
	absent map[byte]string
}

func (w *row) patience() time.Duration {
	if w.limit > 0 {
		return w.limit
	}
	return 4 * time.Second
}

// leaseTime returns the lease of holds that are not renewed.
func (w *row) leaseTime() time.Duration {
	if w.lease > 0 {
		return w.lease
	}
	return shortLease
}

// tells returns how long after a fault a holder may believe at most.
func (w *row) tells() time.Duration { return w.leaseTime() + slow }

func (w *row) wantOf(column byte) want {
	if x, ok := w.except[column]; ok {
		return x
	}
	return w.want
}

// A Cell is what was seen of one fault against one primitive.
type Cell struct {
	Row       string  `json:"row"`
	Fault     string  `json:"fault"`
	Primitive string  `json:"primitive"`
	Right     string  `json:"right"` // the letters and invariants of plan.go
	Seen      string  `json:"seen"`
	Result    string  `json:"result"` // ok, wrong, or not played
	Why       string  `json:"why,omitempty"`
	Remark    string  `json:"remark,omitempty"` // how this differs from the plan
	Proof     int64   `json:"fault_happened"`
	Seconds   float64 `json:"seconds"` // of the row
	// Again is set when the row was played twice: how long the machine had stood
	// still the first time.
	Again string `json:"again,omitempty"`
}

// The results of a cell.
const (
	OK        = "ok"
	Wrong     = "wrong"
	NotPlayed = "not played"
)

// rows returns all rows, in the order of the plan.
func rows() []*row {
	return slices.Concat(serverRows, replicaRows, networkRows, clockRows, clientRows)
}

// Options say what to play.
type Options struct {
	Fast   bool                  // the short rows only
	Match  func(row string) bool // nil: all
	AtOnce int                   // rows side by side
	Tell   func(row string, cells []Cell)
}

// Play plays the rows and returns their cells in the order of the plan.
func Play(ctx context.Context, o Options) []Cell {
	var played []*row
	for _, w := range rows() {
		if (!o.Fast || w.fast) && (o.Match == nil || o.Match(w.id)) {
			played = append(played, w)
		}
	}
	results := make([][]Cell, len(played))
	var mu sync.Mutex
	var wg sync.WaitGroup
	err := redistest.Program(ctx, nil, func(t testing.TB) {
		stable := make([]*redistest.Server, others)
		for i := range stable {
			stable[i] = redistest.Start(t)
		}
		slots := make(chan struct{}, max(o.AtOnce, 1))
		for i, w := range played {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				cells := w.surely(ctx, stable)
				mu.Lock()
				defer mu.Unlock()
				results[i] = cells
				if o.Tell != nil {
					o.Tell(w.id, cells)
				}
			})
		}
		wg.Wait()
	})
	clock.Remove()
	all := slices.Concat(results...)
	if err != nil {
		all = append(all, Cell{Row: "all", Result: Wrong, Why: err.Error()})
	}
	return all
}

// stall is for how long this machine must have stood still for a row to be played
// again.
const stall = 250 * time.Millisecond

// surely plays a row, and once more when something was wrong while this machine
// itself stood still for longer than anybody can be late by.
func (w *row) surely(ctx context.Context, stable []*redistest.Server) []Cell {
	canary := stage.Watch()
	cells := w.run(ctx, stable)
	if gap := canary.Stall(); gap > stall && Summarize(cells).Wrong > 0 && ctx.Err() == nil {
		cells = w.run(ctx, stable)
		for i := range cells {
			cells[i].Again = gap.Round(time.Millisecond).String()
		}
	}
	return cells
}

// run plays one row.
func (w *row) run(ctx context.Context, stable []*redistest.Server) []Cell {
	begin := time.Now()
	sights := map[byte]*sight{}
	var proof int64
	columns := w.columns()
	var err error
	if len(columns) > 0 {
		err = redistest.Program(ctx, nil, func(t testing.TB) {
			ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
			defer cancel()
			r := &rig{TB: t, ctx: ctx, row: w.id, lease: w.leaseTime(), stable: stable}
			if w.play != nil {
				sights = w.play(r, w, columns)
			} else {
				sights = w.scene(r, columns)
			}
			proof = r.proof.Load()
		})
	}
	var cells []Cell
	for _, p := range plan {
		if p.row != w.id {
			continue
		}
		for i := range len(Columns) {
			if p.cells[i] == "" {
				continue
			}
			c := Cell{Row: p.row, Fault: p.fault, Primitive: Names[Columns[i]], Right: p.cells[i], Proof: proof, Seconds: time.Since(begin).Seconds()}
			w.file(&c, Columns[i], sights[Columns[i]], err)
			cells = append(cells, c)
		}
	}
	return cells
}

// file puts what was seen into a cell.
func (w *row) file(c *Cell, column byte, s *sight, err error) {
	if c.Remark = w.remarks[column]; c.Remark == "" {
		c.Remark = w.remarks[0]
	}
	if why := w.why(column); why != "" {
		c.Result, c.Why = NotPlayed, why
		return
	}
	var wrong []string
	if s != nil {
		s.judge(w.wantOf(column))
		c.Seen, wrong = s.text(), s.wrong
	} else {
		wrong = append(wrong, "nothing was seen")
	}
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	if c.Proof == 0 {
		wrong = append(wrong, "the fault did not happen")
	}
	c.Result = OK
	if len(wrong) > 0 {
		c.Result, c.Why = Wrong, strings.Join(wrong, "; ")
	}
}

// why says why a column cannot be played.
func (w *row) why(column byte) string {
	if why := w.absent[0]; why != "" {
		return why
	}
	return w.absent[column]
}

// columns returns the columns to be played.
func (w *row) columns() []byte {
	var columns []byte
	for _, p := range plan {
		for i := range len(Columns) {
			if p.row == w.id && p.cells[i] != "" && w.why(Columns[i]) == "" {
				columns = append(columns, Columns[i])
			}
		}
	}
	return columns
}

// scene is the usual one; see the package comment.
func (w *row) scene(r *rig, columns []byte) map[byte]*sight {
	if w.start != nil {
		w.start(r)
	} else {
		r.single(w.args...)
	}
	if r.a.client == nil {
		r.sides()
	}
	cells := make([]*cell, len(columns))
	sights := map[byte]*sight{}
	var ready sync.WaitGroup
	for i, column := range columns {
		c := &cell{rig: r, row: w, column: column}
		cells[i], sights[column] = c, &c.sight
		ready.Go(func() {
			if err := c.setUp(r.ctx); err != nil {
				c.fault("before the fault: %v", err)
			}
		})
	}
	ready.Wait()
	for _, s := range sights {
		if len(s.wrong) > 0 {
			return sights
		}
	}
	redistest.Until(r, "all to wait", func() bool { return r.b.client.Stats().Waiting >= len(columns) })
	var once sync.Once
	begun := func() {
		once.Do(func() {
			for _, c := range cells {
				c.strike()
			}
		})
	}
	w.fault(r, begun)
	begun()
	for _, c := range cells {
		ready.Go(c.settle)
	}
	ready.Wait()
	w.sweepUp(r, cells)
	return sights
}

// sweepUp looks, once all is given back, for what has been left in Redis.
func (w *row) sweepUp(r *rig, cells []*cell) {
	for _, c := range cells {
		part := r.name(c.column, "")
		var left []string
		for end := time.Now().Add(shortLease / 2); ; r.sleep(20 * time.Millisecond) {
			if left = r.leftovers(part); len(left) == 0 || time.Now().After(end) {
				break
			}
		}
		if len(left) > 0 {
			c.fault("left in Redis: %s", strings.Join(left, ", "))
		}
	}
}
