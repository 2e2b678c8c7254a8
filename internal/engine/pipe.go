package engine

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

// A pipe sends the commands of many callers together when there are many: each
// of them costs a part of a round trip then. With few under way a command goes
// straight to go-redis, as that costs a single caller least. A cluster has one for
// each node: one that does not answer would keep everybody waiting.
type pipe struct {
	engine   *Engine                  // nil for that of a cluster's node
	carry    func(cmds []redis.Cmder) // sends one pipeline and waits
	underway *atomic.Int32            // commands, in this pipe or not

	// mu guards the fields below.
	mu      sync.Mutex
	queue   []*piped
	sending int         // pipelines under way
	since   time.Time   // when the last one was begun
	avoid   time.Time   // until then no command joins the others
	look    *time.Timer // for one that is late; nil before the first
	looking bool        // it runs

	// used are pipeds to be used again. They are no other pipe's: a channel that was
	// made in a bubble of fake time must not be seen in another.
	used sync.Pool
}

// A piped is a command that is sent with others, or a part in one.
type piped struct {
	cmd    redis.Cmder // nil for a part
	part   Part
	answer int64      // to the part
	done   chan error // capacity 1
	pipe   *pipe
}

// over ends the use of j by the one who has received from done: nobody else has
// it any more.
func (j *piped) over() {
	j.cmd, j.part, j.answer = nil, Part{}, 0
	j.pipe.used.Put(j)
}

// add puts a command, or a part if that is nil, with the others, if there are
// others, and returns nil if there are not. The outcome comes on done.
func (p *pipe) add(cmd redis.Cmder, part *Part) *piped {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sending == 0 && p.underway.Load() <= pipeFrom || !p.avoid.IsZero() && time.Now().Before(p.avoid) {
		return nil
	}
	j, _ := p.used.Get().(*piped)
	if j == nil {
		j = &piped{done: make(chan error, 1), pipe: p}
	}
	j.cmd = cmd
	if part != nil {
		j.part = *part
	}
	p.queue = append(p.queue, j)
	deep := pipeDeep
	if p.engine == nil {
		deep = nodeDeep
	}
	if p.sending == 0 || p.sending == 1 && len(p.queue) >= deep || p.isLate() {
		p.begin()
	} else {
		p.watch()
	}
	return j
}

// isLate reports whether the pipelines under way may hang, and another one may be
// begun. The caller has mu.
func (p *pipe) isLate() bool { return p.sending < pipes && time.Since(p.since) > pipeLate }

// begin begins another pipeline. The caller has mu.
func (p *pipe) begin() {
	p.sending++
	p.since = time.Now()
	go p.send()
}

// watch sees to it that those who wait behind a pipeline are not held up by it
// for much longer than pipeLate, though nobody else may come. The caller has mu.
func (p *pipe) watch() {
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

func (p *pipe) overdue() {
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
func (p *pipe) take() []*piped {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), pipeDepth)
	if n == 0 {
		p.sending--
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
func (p *pipe) send() {
	for {
		batch := p.take()
		if batch == nil {
			return
		}
		cmds := make([]redis.Cmder, 0, len(batch))
		var parties []party
		for _, j := range batch {
			if j.cmd == nil {
				parties = seat(parties, j)
				continue
			}
			cmds = append(cmds, j.cmd)
		}
		for i := range parties {
			q := &parties[i]
			q.cmd = q.command(context.Background(), "evalsha", q.of[0].part.Script.Arg())
			cmds = append(cmds, q.cmd)
		}
		p.carry(cmds)
		if len(parties) > 0 {
			p.engine.unknown(p.carry, parties)
		}
		failed := false
		for _, j := range batch {
			if j.cmd != nil {
				err := j.cmd.Err()
				failed = failed || Sort(err) == Maybe
				j.done <- err
			}
		}
		for i := range parties {
			failed = p.engine.serve(&parties[i]) != nil || failed
		}
		if failed {
			p.mu.Lock()
			p.avoid = time.Now().Add(pipeAvoid)
			p.mu.Unlock()
		}
	}
}

// idle reports whether nothing is in p.
func (p *pipe) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sending == 0
}

// nodes are the pipes of a cluster, by node.
type nodes struct {
	// mu guards the field below.
	mu sync.Mutex
	m  map[*redis.Client]*pipe
}

// pipeFor returns the pipe that cmd may join; nil for none.
func (e *Engine) pipeFor(ctx context.Context, cmd redis.Cmder) *pipe {
	rdb, ok := e.rdb.(*redis.ClusterClient)
	if !ok {
		return &e.pipe
	}
	if !e.answered.Load() || e.underway.Load() <= pipeFrom {
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
	ns := &e.nodes
	ns.mu.Lock()
	defer ns.mu.Unlock()
	p := ns.m[node]
	if p == nil {
		// Nodes come and go.
		maps.DeleteFunc(ns.m, func(_ *redis.Client, p *pipe) bool { return p.idle() })
		p = &pipe{carry: carrier(node), underway: &e.underway}
		if ns.m == nil {
			ns.m = make(map[*redis.Client]*pipe)
		}
		ns.m[node] = p
	}
	return p
}

// elsewhere reports whether a command was not carried out because the node that
// it was sent to is not, or no longer, the one for it.
func elsewhere(err error) bool {
	return isCode(err, "MOVED") || isCode(err, "ASK") || isCode(err, "READONLY") || errors.Is(err, redis.ErrClosed)
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
