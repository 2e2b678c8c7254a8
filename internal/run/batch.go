package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/lua"
)

const (
	// manyMost is how many requests one run of a script serves. Redis does
	// nothing else during a run.
	manyMost = 100
	// manyBound is the least time that a request in a batch may take: the
	// earliest deadline of a batch bounds all of its requests.
	manyBound = time.Second
	// scriptsSeen is how many scripts of a batch are tried for a request to
	// join. If all requests differ, each has a script of its own.
	scriptsSeen = 8
)

// A BatchRequest is the request of one caller to a script that serves many
// callers.
type BatchRequest struct {
	Script   *lua.Script
	Deadline Deadline
	// SharedKeys and SharedArgs come first. They are the same for all requests
	// of one run.
	SharedKeys [2]any
	SharedArgs [3]any
	// Keys and Args are the caller's own. In the command, the first Keys of all
	// callers come together, then the second Keys; the Args of one caller come
	// together. In each of these arrays, a nil ends the list.
	Keys, Args [2]any
}

// with reports whether one run can serve both p and q.
func (p *BatchRequest) with(q *BatchRequest) bool {
	return p.Script == q.Script && p.SharedArgs == q.SharedArgs && p.SharedKeys == q.SharedKeys &&
		(p.Keys[1] == nil) == (q.Keys[1] == nil) && (p.Deadline.NotAfter == 0) == (q.Deadline.NotAfter == 0)
}

// Crowded reports whether so many commands are under way that the next ones are
// sent together. If it returns false, EvalMany is of no use.
func (rn *Runner) Crowded() bool {
	return rn.underway.Load() >= pipeFrom && !rn.cluster
}

// EvalMany sends r together with the requests of other callers, if there are
// many. The script takes KEYS and ARGV as BatchRequest describes, with the
// deadline after the shared arguments. It replies with an array: the server's
// time in ms, or 0, and one number for each caller, which is 0 if the script
// changed nothing for that caller. A shorter array means that the script
// changed nothing at all.
//
// EvalMany returns the caller's number. It returns 0 as well if there are not
// many callers, or if opts ask for more than a batch can do. After a 0, the
// caller sends the script that serves one caller. Otherwise EvalMany behaves as
// Eval does.
func (rn *Runner) EvalMany(ctx context.Context, opts Options, r *BatchRequest) (answer int64, err error) {
	d := r.Deadline
	if rn.cluster || rn.ring || d.NotAfter != 0 && d.Ahead < (manyBound+ClockSlack).Milliseconds() || opts.Replicas != nil || ctx.Err() != nil {
		return 0, nil
	}
	if opts.Within > 0 {
		err = inTime(ctx, opts.Within, func(ctx context.Context) error {
			answer, err = rn.EvalMany(ctx, opts.unbounded(), r)
			return err
		})
		return answer, err
	}
	rn.underway.Add(1)
	defer rn.underway.Add(-1)
	if !rn.batcher.busy() {
		return 0, nil
	}
	answer, _, err = rn.batcher.join(ctx, rn, opts, nil, r)
	if err != nil {
		rn.suspect(err)
	}
	return answer, err
}

// A batchScript is one run of a script that serves many callers.
type batchScript struct {
	of  []*batchItem
	cmd scriptCmd
}

// share adds j to a script that can serve it, or to a new one.
func share(scripts []batchScript, j *batchItem) []batchScript {
	for i := len(scripts) - 1; i >= max(0, len(scripts)-scriptsSeen); i-- {
		p := &scripts[i]
		if len(p.of) < manyMost && p.of[0].request.with(&j.request) {
			p.of = append(p.of, j)
			return scripts
		}
	}
	return append(scripts, batchScript{of: []*batchItem{j}})
}

// command returns the command for p.
func (p *batchScript) command(ctx context.Context, name string, script any) scriptCmd {
	first := &p.of[0].request
	shared, keys, each := filled(first.SharedKeys[:]), filled(first.Keys[:]), filled(first.Args[:])
	n := len(p.of)
	args := make([]any, 0, Head+len(first.SharedKeys)+len(first.SharedArgs)+2+(keys+each)*n)
	args = append(args, name, script, shared+keys*n)
	args = append(args, first.SharedKeys[:shared]...)
	d := first.Deadline
	for k := range keys {
		for _, j := range p.of {
			args = append(args, j.request.Keys[k])
			if j.request.Deadline.NotAfter < d.NotAfter {
				d = j.request.Deadline
			}
		}
	}
	args = append(args, first.SharedArgs[:filled(first.SharedArgs[:])]...)
	args = append(args, d.NotAfter, d.Ahead)
	for _, j := range p.of {
		args = append(args, j.request.Args[:each]...)
	}
	cmd := scriptCmd{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(Head)
	return cmd
}

// filled returns the number of elements before the first nil.
func filled(list []any) (n int) {
	for n < len(list) && list[n] != nil {
		n++
	}
	return n
}

// serve delivers the outcome of p to its items. It returns the error if the
// command may have been executed.
func (rn *Runner) serve(p *batchScript) error {
	err := p.cmd.Err()
	var reply redis.Error
	switch {
	case err == nil:
		script := p.of[0].request.Script
		if k := &rn.known[script.Index]; !k.Load() {
			k.Store(true)
		}
		answers, _ := p.cmd.Val().([]any)
		if len(answers) > 0 {
			if ms, ok := answers[0].(int64); ok && ms > 0 {
				rn.Clock.learn(time.Now(), ms)
			}
			answers = answers[1:]
		}
		for i, j := range p.of {
			if i < len(answers) {
				j.answer, _ = answers[i].(int64)
			}
			j.done <- nil
		}
	case errors.As(err, &reply) && Classify(err) != Unknown:
		// Each caller's own request will show what is wrong with it.
		err = nil
		fallthrough
	default:
		for _, j := range p.of {
			j.done <- err
		}
	}
	return err
}

// unknown sends the scripts that Redis does not know again, with their text.
func (rn *Runner) unknown(carry func([]redis.Cmder), scripts []batchScript) {
	var again []redis.Cmder
	for i := range scripts {
		p := &scripts[i]
		if err := p.cmd.Err(); err == nil || !IsCode(err, "NOSCRIPT") {
			continue
		}
		script := p.of[0].request.Script
		if rn.known[script.Index].Load() {
			rn.cfg.Suspect()
		}
		p.cmd = p.command(context.Background(), "eval", script.Source)
		again = append(again, p.cmd)
	}
	if len(again) > 0 {
		carry(slices.Clip(again))
	}
}
