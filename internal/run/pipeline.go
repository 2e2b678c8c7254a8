package run

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pipeFrom is how many commands must be under way for the next ones to be
	// sent together.
	pipeFrom = 12
	// pipeDepth is the most commands in one pipeline.
	pipeDepth = 256
	// pipeDeep is how many commands must be queued for a second pipeline to be
	// worth while. nodeDeep is the same at a node of a cluster, where other
	// pipelines keep Redis busy.
	pipeDeep = 24
	nodeDeep = 128
	// pipes is the most pipelines under way at once. There are more than two
	// only if the last one is late, because it may hang.
	pipes = 8
	// pipeLate is when a pipeline counts as late.
	pipeLate = 20 * time.Millisecond
	// pipeAvoid is how long commands are sent alone after a connection has
	// failed: a failure hits all commands of a pipeline.
	pipeAvoid = 250 * time.Millisecond
)

// A batcher sends the commands of many callers in one pipeline, so that each
// costs only part of a round trip. If few commands are under way, a command
// goes straight to go-redis, which costs a single caller least. A cluster has a
// batcher for each node, because one node that does not answer would delay all
// callers.
type batcher struct {
	runner   *Runner                  // nil for the batcher of a cluster node
	carry    func(cmds []redis.Cmder) // sends one pipeline and waits
	underway *atomic.Int32            // commands under way, in this batcher or not

	sending atomic.Int32 // pipelines under way; written with mu held

	// mu guards the fields below.
	mu      sync.Mutex
	queue   []*batchItem
	since   time.Time   // when the last pipeline began
	avoid   time.Time   // no command joins others until then
	look    *time.Timer // looks for a late pipeline; nil before the first use
	looking bool        // look is running

	// used are items for reuse. Each batcher has its own, because a channel
	// that was made in a bubble of fake time must not appear in another.
	used sync.Pool
}

// A batchItem is a command that is sent with others, or a request in a batch.
type batchItem struct {
	cmd     redis.Cmder // nil for a request
	request BatchRequest
	answer  int64      // answer to the request
	done    chan error // capacity 1
	from    *batcher
}

// over returns j for reuse. Only the receiver from done may call it, because
// nobody else uses j any more.
func (j *batchItem) over() {
	j.cmd, j.request, j.answer = nil, BatchRequest{}, 0
	j.from.used.Put(j)
}

// busy reports whether a command is to be sent with others. It takes no lock, so
// few callers share none.
func (p *batcher) busy() bool { return p.sending.Load() > 0 || p.underway.Load() > pipeFrom }

// add queues cmd, or r if cmd is nil, to be sent with others. It returns nil if
// it is to be sent alone. The outcome is delivered on done.
func (p *batcher) add(cmd redis.Cmder, r *BatchRequest) *batchItem {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.avoid.IsZero() && time.Now().Before(p.avoid) {
		return nil
	}
	j, _ := p.used.Get().(*batchItem)
	if j == nil {
		j = &batchItem{done: make(chan error, 1), from: p}
	}
	j.cmd = cmd
	if r != nil {
		j.request = *r
	}
	p.queue = append(p.queue, j)
	deep := pipeDeep
	if p.runner == nil {
		deep = nodeDeep
	}
	if p.sending.Load() == 0 || p.sending.Load() == 1 && len(p.queue) >= deep || p.isLate() {
		p.begin()
	} else {
		p.watch()
	}
	return j
}

// join sends cmd, or r if cmd is nil, with others and waits as send does. answer
// is the answer to r. joined is false if nothing was sent.
func (p *batcher) join(ctx context.Context, rn *Runner, opts Options, cmd redis.Cmder, r *BatchRequest) (answer int64, joined bool, err error) {
	j := p.add(cmd, r)
	if j == nil {
		return 0, false, nil
	}
	answered, err := rn.await(ctx, opts, j.done)
	if answered {
		answer = j.answer
		j.over()
	}
	return answer, true, err
}

// isLate reports whether the pipelines under way may hang and another one may
// begin. The caller holds mu.
func (p *batcher) isLate() bool { return p.sending.Load() < pipes && time.Since(p.since) > pipeLate }

// begin starts another pipeline. The caller holds mu.
func (p *batcher) begin() {
	p.sending.Add(1)
	p.since = time.Now()
	go p.send()
}

// watch makes sure that a pipeline that hangs delays the queued commands by
// little more than pipeLate, even if no other command comes. The caller holds
// mu.
func (p *batcher) watch() {
	switch {
	case p.looking:
		return
	case p.look == nil:
		p.look = time.AfterFunc(pipeLate, p.overdue)
	default:
		p.look.Reset(pipeLate)
	}
	p.looking = true
}

func (p *batcher) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = false
	if len(p.queue) == 0 {
		return
	}
	if p.isLate() {
		p.begin()
	}
	p.watch()
}

// take returns the commands to send next, or nil if this sender is done.
func (p *batcher) take() []*batchItem {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), pipeDepth)
	if n == 0 {
		p.sending.Add(-1)
		return nil
	}
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	p.since = time.Now()
	if len(p.queue) > 0 {
		p.watch()
	}
	return batch
}

// send sends queued commands until there are none.
func (p *batcher) send() {
	for {
		batch := p.take()
		if batch == nil {
			return
		}
		cmds := make([]redis.Cmder, 0, len(batch))
		var scripts []batchScript
		for _, j := range batch {
			if j.cmd == nil {
				scripts = share(scripts, j)
				continue
			}
			cmds = append(cmds, j.cmd)
		}
		for i := range scripts {
			q := &scripts[i]
			q.cmd = q.command(context.Background(), "evalsha", q.of[0].request.Script.Arg())
			cmds = append(cmds, q.cmd)
		}
		p.carry(cmds)
		if len(scripts) > 0 {
			p.runner.unknown(p.carry, scripts)
		}
		failed := false
		for _, j := range batch {
			if j.cmd != nil {
				err := j.cmd.Err()
				failed = failed || Classify(err) == Unknown
				j.done <- err
			}
		}
		for i := range scripts {
			failed = p.runner.serve(&scripts[i]) != nil || failed
		}
		if failed {
			p.mu.Lock()
			p.avoid = time.Now().Add(pipeAvoid)
			p.mu.Unlock()
		}
	}
}

// idle reports whether p has no pipeline under way.
func (p *batcher) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sending.Load() == 0
}

// nodes are the batchers of a cluster, by node.
type nodes struct {
	// mu guards the field below.
	mu sync.Mutex
	m  map[*redis.Client]*batcher
}

// batcherFor returns the batcher that cmd may join, or nil.
func (rn *Runner) batcherFor(ctx context.Context, cmd redis.Cmder) *batcher {
	rdb, ok := rn.rdb.(*redis.ClusterClient)
	if !ok {
		if rn.batcher.busy() {
			return &rn.batcher
		}
		return nil
	}
	if !rn.answered.Load() || rn.underway.Load() <= pipeFrom {
		return nil // do not make go-redis look up the nodes first
	}
	args := cmd.Args()
	if len(args) <= Head {
		return nil
	}
	key, ok := args[Head].(string)
	if n, _ := args[Head-1].(int); !ok || n == 0 {
		return nil
	}
	node, err := rdb.MasterForKey(ctx, key)
	if err != nil {
		return nil
	}
	ns := &rn.nodes
	ns.mu.Lock()
	defer ns.mu.Unlock()
	p := ns.m[node]
	if p == nil {
		// Nodes come and go: drop the batchers that are idle.
		maps.DeleteFunc(ns.m, func(_ *redis.Client, p *batcher) bool { return p.idle() })
		p = &batcher{carry: carrier(node), underway: &rn.underway}
		if ns.m == nil {
			ns.m = make(map[*redis.Client]*batcher)
		}
		ns.m[node] = p
	}
	if !p.busy() { // the others have ended meanwhile
		return nil
	}
	return p
}

// wrongNode reports whether a command was not executed because its node is not,
// or no longer, the right one.
func wrongNode(err error) bool {
	return IsCode(err, "MOVED") || IsCode(err, "ASK") || IsCode(err, "READONLY") || errors.Is(err, redis.ErrClosed)
}

// pipeBound is how long a pipeline may take.
const pipeBound = 3 * time.Second

// carrier returns a function that sends commands in one pipeline of rdb. The
// commands hold their outcomes.
func carrier(rdb redis.UniversalClient) func(cmds []redis.Cmder) {
	return func(cmds []redis.Cmder) {
		// The pipeline is shared, so no caller's context bounds it.
		ctx, cancel := context.WithTimeout(context.Background(), pipeBound)
		defer cancel()
		pipe := rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx)
	}
}
