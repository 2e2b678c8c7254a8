package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/chaos/history"
	"github.com/latchkey-go/latchkey/chaos/model"
	"github.com/latchkey-go/latchkey/chaos/nemesis"
	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/chaos/workload"
)

// names is how many objects of each kind a round has.
const names = 3

const (
	// firstChild is the number of the first party in a process of its own.
	firstChild = 10
	// perParty is how many numbers of workers each party has.
	perParty = 1000
)

// A round is clients at work, and one fault.
type round struct {
	cfg Config
	*stage.Stage
	fault  nemesis.Fault
	number int
	rand   *rand.Rand

	base     workload.Config
	rec      history.Recorder
	store    store
	children []*workload.Process
	plays    []*nemesis.Play
	stood    [][2]int64 // from when to when the children may have stood still
	lossy    bool       // more than leases may have been forgotten
}

// An outcome is what has come out of a round.
type outcome struct {
	verdict          model.Verdict
	proof            int64
	times            int
	before, during   int
	after            int
	counted          int // acquisitions that are in these
	recovery         time.Duration
	slowest          workload.Slow
	children         int
	offered, refused int
	stale            int
	unplanned        int // failovers
	again            int // times that the limit for a recovery has begun again
	served           map[string]int
	failures         []string
}

func (o *outcome) fail(format string, args ...any) {
	o.failures = append(o.failures, fmt.Sprintf(format, args...))
}

func (x *round) run(ctx context.Context) *outcome {
	o := &outcome{}
	begin, failovers := history.Now(), x.Failovers()
	x.base = workload.Config{
		Round: fmt.Sprintf("chaos:%d:%d", x.cfg.Seed, x.number), Kinds: x.cfg.Kinds, Names: names, Workers: 1,
	}
	admin, closeAdmin := x.client()
	defer closeAdmin()
	if err := x.prepare(ctx, admin); err != nil {
		o.fail("setting up: %v", err)
		return o
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, proxied := range []bool{false, true, true} {
		cfg := x.party(i, proxied)
		cfg.Workers = 2
		wg.Go(func() {
			slowest, _ := workload.Run(working, cfg, &x.rec, x.store.offer) // what could not be given back ends with its lease
			mu.Lock()
			defer mu.Unlock()
			o.slowest = o.slowest.Worse(slowest)
		})
	}
	if x.fault.Children || x.fault.ClientClock || x.rand.IntN(4) == 0 {
		x.start(o)
	}
	defer func() { // also where the servers fail the campaign
		for _, c := range x.children {
			c.Kill()
		}
	}()

	var losses []model.Loss
	if took, kind := x.everyone(ctx, nil, o); kind != "" {
		o.fail("before the fault, %s had not been served %d times after %v", kind, atLeast, took)
	} else {
		times := max(1, x.cfg.Repeat)
		if x.fault.Loss || x.fault.Children { // there is less to check, or nobody left to do it to
			times = 1
		}
		for range times {
			losses = append(losses, x.suffer(ctx, admin, o)...)
		}
		o.times = times
	}
	stop()
	wg.Wait()
	o.children = len(x.children)
	for _, c := range x.children {
		slowest, err := c.Stop()
		if err != nil {
			o.fail("%v", err)
		}
		if !x.fault.Children { // one that was frozen could not return
			o.slowest = o.slowest.Worse(slowest)
		}
	}
	planned := failovers + o.unplanned
	if x.fault.Loss {
		planned += o.times
	}
	if n := x.Failovers() - planned; n > 0 && x.Topology == stage.Sentinel {
		// Before the fault, or after it; nobody knows when exactly.
		o.unplanned += n
		losses = append(losses, model.Loss{From: begin, To: history.Now()})
	}
	x.lossy = slices.ContainsFunc(losses, func(l model.Loss) bool { return l.Lease == 0 })
	for _, p := range x.plays {
		p.Settle()
	}
	leaving := model.Leaving
	switch {
	case x.fault.Hole: // what has been given to one in there comes back when it ends
		leaving = model.LeavingLate + x.fault.Span
	case x.fault.Late:
		leaving = model.LeavingLate
	}
	x.quiet(ctx, admin, o, losses, leaving)

	entries := x.rec.All()
	for i := range entries {
		e := &entries[i]
		e.Stopped = e.Worker >= firstChild*perParty && slices.ContainsFunc(x.stood, func(s [2]int64) bool { return e.Call <= s[1] && e.Return >= s[0] })
	}
	o.verdict = model.Check(entries, losses, searchLimit, leaving)
	o.served = x.rec.Served()
	o.stale = x.store.stale(entries)
	o.offered, o.refused = x.store.offered, x.store.refused
	if o.stale > 0 {
		o.fail("the fenced store accepted %d stale writes", o.stale)
	}
	for _, v := range o.verdict.Violations {
		o.fail("%v", v)
	}
	return o
}

// start starts children. Their clients have fixed ids, the same each time.
func (x *round) start(o *outcome) {
	for i := range 2 {
		cfg := x.party(firstChild+len(x.children), i == 1)
		cfg.Client = fmt.Sprintf("worker-%d", i)
		p, err := workload.Start(cfg, &x.rec, x.store.offer, x.fault.ClientClock)
		if err != nil {
			o.fail("starting a child: %v", err)
			break
		}
		x.children = append(x.children, p)
	}
}

// suffer does the fault, and sees that there was work before, during and after it.
func (x *round) suffer(ctx context.Context, admin *latchkey.Client, o *outcome) []model.Loss {
	children := make([]nemesis.Child, len(x.children))
	for i, c := range x.children {
		children[i] = c
	}
	var all []string
	for _, kind := range x.cfg.Kinds {
		all = append(all, x.base.Name(kind, 0))
	}
	play := nemesis.NewPlay(x.fault, x.Stage, x.rand, children, all)
	x.plays = append(x.plays, play)
	served := x.rec.Served()
	before := total(served)
	o.before += before - o.counted
	masters := x.Masters()
	from := history.Now()
	play.Begin()
	begun := history.Now()
	if x.fault.Again {
		x.start(o)
	}
	wait(ctx, x.fault.Span)
	during := total(x.rec.Served()) - before
	for end := time.Now().Add(patience); x.fault.Live && during < atLeastDuring && time.Now().Before(end); {
		wait(ctx, 20*time.Millisecond) // on a machine that is busy it goes on for longer
		during = total(x.rec.Served()) - before
	}
	o.during += during
	play.End()
	over := history.Now()
	if x.fault.Children {
		x.stood = append(x.stood, [2]int64{from, over})
	}
	if play.Proof() == 0 {
		o.fail("nothing proves that the fault has happened")
	}
	o.proof += play.Proof()
	if x.fault.Live && during < atLeastDuring {
		o.fail("only %d acquisitions during a fault that leaves some clients served", during)
	}
	if x.fault.Loss { // nobody but an operator brings permits back
		if err := x.prepare(ctx, admin); err != nil {
			o.fail("setting up again: %v", err)
		}
	}
	served = x.rec.Served()
	took, last := x.everyone(ctx, served, o)
	if last != "" {
		o.fail("%s was not served %d times within %v after the fault", last, atLeast, took)
	}
	o.recovery = max(o.recovery, took)
	wait(ctx, 200*time.Millisecond)
	o.counted = total(x.rec.Served())
	o.after += o.counted - total(served)
	switch {
	case x.fault.Loss:
		return []model.Loss{{From: from, To: over}}
	case x.fault.Early:
		return []model.Loss{{From: from, To: begun, Lease: workload.Lease, Step: play.Stepped()}}
	case !x.fault.Moves && !slices.Equal(masters, x.Masters()):
		o.unplanned++ // the machine was so slow that somebody was taken for dead
		return []model.Loss{{From: from, To: history.Now()}}
	}
	return nil
}

// everyone waits until all kinds have been served since then, and returns how long
// that took, and a kind that was not within the limit.
func (x *round) everyone(ctx context.Context, since map[string]int, o *outcome) (took time.Duration, kind string) {
	start, limit := time.Now(), newLimit(x.Failovers)
	defer func() { o.again += limit.again }()
	for ; ; wait(ctx, 5*time.Millisecond) {
		now := x.rec.Served()
		i := slices.IndexFunc(x.cfg.Kinds, func(k string) bool { return now[k]-since[k] < atLeast })
		if took = time.Since(start); i < 0 {
			return took, ""
		}
		if limit.over() || ctx.Err() != nil {
			return took, x.cfg.Kinds[i]
		}
	}
}

// A limit is how long the clients may take to be served by a primary. When it is over
// and Sentinels have replaced that meanwhile, which nobody had meant, it begins again,
// a few times at most: what a forgotten release has left has to end once more.
type limit struct {
	failovers    func() int
	begun        time.Time
	known, again int
}

func newLimit(failovers func() int) *limit {
	return &limit{failovers: failovers, begun: time.Now(), known: failovers()}
}

func (l *limit) over() bool {
	if time.Since(l.begun) <= recovery {
		return false
	}
	n := l.failovers()
	if n == l.known || l.again == mostAgain {
		return true
	}
	l.begun, l.known = time.Now(), n
	l.again++
	return false
}

// party returns what the i-th party does.
func (x *round) party(i int, proxied bool) workload.Config {
	cfg := x.base
	cfg.Spec, cfg.ID, cfg.Seed, cfg.First = x.Spec(proxied), fmt.Sprintf("p%d", i), x.rand.Uint64(), i*perParty
	return cfg
}

func (x *round) client() (*latchkey.Client, func()) {
	rdb := x.Spec(false).Connect()
	c := latchkey.New(rdb, workload.Options()...)
	return c, func() {
		_ = c.Close()
		_ = rdb.Close()
	}
}

// again returns the command that repeats the round. Its number tells the fault only
// among the same faults.
func (x *round) again() string {
	command := fmt.Sprintf("go run ./chaos/cmd/chaos run -topology %s -seed %d -round %d", x.cfg.Topology, x.cfg.Seed, x.number)
	if x.cfg.Repeat > 1 {
		command += fmt.Sprintf(" -repeat %d", x.cfg.Repeat)
	}
	if len(x.cfg.Kinds) < len(workload.Kinds) {
		command += " -primitive " + strings.Join(x.cfg.Kinds, ",")
	}
	if n := len(x.cfg.Faults); n > 0 && n < len(nemesis.For(x.cfg.Topology)) {
		names := make([]string, n)
		for i, f := range x.cfg.Faults {
			names[i] = f.Name
		}
		command += " -faults " + strings.Join(names, ",")
	}
	return command
}

// add adds what has come out of a round, and tells how to repeat it if it failed.
func (r *Result) add(x *round, o *outcome) {
	r.Rounds++
	r.Children += o.children
	r.Unplanned += o.unplanned
	r.Again += o.again
	r.Verdict.Add(o.verdict)
	for kind, n := range o.served {
		r.Served[kind] += n
	}
	r.Offered, r.Refused, r.Stale = r.Offered+o.offered, r.Refused+o.refused, r.Stale+o.stale
	r.SlowestCancel = r.SlowestCancel.Worse(o.slowest)
	if o.recovery > r.SlowestRecovery {
		r.SlowestRecovery, r.Recovering = o.recovery, x.fault.Name
	}
	t := r.Faults[x.fault.Name]
	t.What = x.fault.What
	t.Times += o.times
	t.Proof += o.proof
	t.Before, t.During, t.After = t.Before+o.before, t.During+o.during, t.After+o.after
	t.Doubles += o.verdict.Doubles
	t.Recovery = max(t.Recovery, o.recovery)
	r.Faults[x.fault.Name] = t
	for _, f := range o.failures {
		r.fail("round %d, %s: %s\nrepeat it with: %s", x.number, x.fault.Name, f, x.again())
	}
	if x.cfg.Log != nil {
		x.cfg.Log("%s round %d: %-18s %6d calls, %5d/%5d/%5d served before/during/after, proof %5d, recovered in %4d ms, doubles %d, slowest cancel %v %s (%.90s), failures %d",
			x.Topology, x.number, x.fault.Name, o.verdict.Calls, o.before, o.during, o.after, o.proof, o.recovery.Milliseconds(), o.verdict.Doubles, o.slowest.Late.Round(time.Millisecond), o.slowest.Kind, o.slowest.Error, len(o.failures))
	}
}

func total(m map[string]int) int {
	n := 0
	for _, k := range m {
		n += k
	}
	return n
}

// wait lets d pass, or ctx end.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
