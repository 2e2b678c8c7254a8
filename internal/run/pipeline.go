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
	// pipeFrom is how many commands are under way when the next ones are sent
	// together.
	pipeFrom = 12
	// pipeDepth is how many go into one pipeline at most.
	pipeDepth = 256
	// pipeDeep is how many have to wait for a second pipeline to be worth it, and
	// nodeDeep the same at a node of a cluster, where the others keep Redis busy.
	pipeDeep = 24
	nodeDeep = 128
	// pipes is how many may be under way at once: more than two only when the last
	// one is late, since it may hang.
	pipes = 8
	// pipeLate is when it is.
	pipeLate = 20 * time.Millisecond
	// pipeAvoid is for how long commands go alone when a connection has failed:
	// what fails fails for all that are sent together.
	pipeAvoid = 250 * time.Millisecond
)

// A batcher sends the commands of many callers in one pipeline, so that each costs a
// part of a round trip. With few under way a command goes straight to go-redis, as that
// costs a single caller least. A cluster has a batcher for each node: one node that does
// not answer would keep everybody waiting.
type batcher struct {
	runner   *Runner                  // nil for that of a cluster's node
	carry    func(cmds []redis.Cmder) // sends one pipeline and waits
	underway *atomic.Int32            // commands, in this batcher or not

	sending atomic.Int32 // pipelines under way; written with mu

	// mu guards the fields below.
	mu      sync.Mutex
	queue   []*batchItem
	since   time.Time   // when the last one was begun
	avoid   time.Time   // until then no command joins the others
	look    *time.Timer // for one that is late; nil before the first
	looking bool        // it runs

	// used are items to be used again. They are no other batcher's: a channel that was
	// made in a bubble of fake time must not be seen in another.
	used sync.Pool
}

// A batchItem is a command that is sent with others, or a request in one.
type batchItem struct {
	cmd     redis.Cmder // nil for a request
	request BatchRequest
	answer  int64      // to the request
	done    chan error // capacity 1
	from    *batcher
}

// over ends the use of j by the one who has received from done: nobody else has
// it any more.
func (j *batchItem) over() {
	j.cmd, j.request, j.answer = nil, BatchRequest{}, 0
	j.from.used.Put(j)
}

// add puts cmd, or r if that is nil, with the others, if there are others, and returns
// nil if there are not. The outcome comes on done.
func (p *batcher) add(cmd redis.Cmder, r *BatchRequest) *batchItem {
	if p.sending.Load() == 0 && p.underway.Load() <= pipeFrom {
		return nil // callers that are few have no lock in common
	}
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

// join sends cmd, or r if that is nil, with others, if there are others, and waits as
// send does. answer is that to r. joined is false if nothing was sent.
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

// isLate reports whether the pipelines under way may hang, and another one may be
// begun. The caller has mu.
func (p *batcher) isLate() bool { return p.sending.Load() < pipes && time.Since(p.since) > pipeLate }

// begin begins another pipeline. The caller has mu.
func (p *batcher) begin() {
	p.sending.Add(1)
	p.since = time.Now()
	go p.send()
}

// watch sees to it that those who wait behind a pipeline are not held up by it
// for much longer than pipeLate, though nobody else may come. The caller has mu.
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

// take returns the commands to send next; none when this sender is done.
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

// send sends what there is until there is nothing.
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

// idle reports whether nothing is in p.
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

// batcherFor returns the batcher that cmd may join; nil for none.
func (rn *Runner) batcherFor(ctx context.Context, cmd redis.Cmder) *batcher {
	rdb, ok := rn.rdb.(*redis.ClusterClient)
	if !ok {
		return &rn.batcher
	}
	if !rn.answered.Load() || rn.underway.Load() <= pipeFrom {
		return nil // nor may go-redis have to ask for the nodes first
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
		// Nodes come and go.
		maps.DeleteFunc(ns.m, func(_ *redis.Client, p *batcher) bool { return p.idle() })
		p = &batcher{carry: carrier(node), underway: &rn.underway}
		if ns.m == nil {
			ns.m = make(map[*redis.Client]*batcher)
		}
		ns.m[node] = p
	}
	return p
}

// elsewhere reports whether a command was not carried out because the node that
// it was sent to is not, or no longer, the one for it.
func elsewhere(err error) bool {
	return IsCode(err, "MOVED") || IsCode(err, "ASK") || IsCode(err, "READONLY") || errors.Is(err, redis.ErrClosed)
}

// pipeBound is how long a pipeline may take, whoever shares it.
const pipeBound = 3 * time.Second

// carrier returns what sends commands in one pipeline of rdb. Their outcomes are in
// them.
func carrier(rdb redis.UniversalClient) func(cmds []redis.Cmder) {
	return func(cmds []redis.Cmder) {
		// Nobody's context bounds it, since it is everybody's.
		ctx, cancel := context.WithTimeout(context.Background(), pipeBound)
		defer cancel()
		pipe := rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx)
	}
}
