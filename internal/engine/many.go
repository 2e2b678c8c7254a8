package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/lua"
)

const (
	// manyMost is how many are served by one run of a script: Redis does nothing
	// else meanwhile.
	manyMost = 100
	// manyBound is how long a request that others are served with may take at
	// least: the one that is over first bounds them all.
	manyBound = time.Second
	// partiesSeen is how many parties one may join: of those who all want something
	// else, each makes its own.
	partiesSeen = 8
)

// A Part is what one caller asks for by a script that serves many callers.
type Part struct {
	Script   *lua.Script
	Deadline Deadline
	// SharedKeys and SharedArgs come first: those served together have the same.
	SharedKeys [2]any
	SharedArgs [3]any
	// Keys and Args are the caller's own. Keys of the same place stand together,
	// the Args of one caller. In all of these, those behind a nil are nil.
	Keys, Args [2]any
}

// with reports whether p and q may be served together.
func (p *Part) with(q *Part) bool {
	return p.Script == q.Script && p.SharedArgs == q.SharedArgs && p.SharedKeys == q.SharedKeys &&
		(p.Keys[1] == nil) == (q.Keys[1] == nil) && (p.Deadline.NotAfter == 0) == (q.Deadline.NotAfter == 0)
}

// Crowded reports whether so many commands are under way that the next ones are
// sent together. If it says no, EvalMany need not be tried.
func (e *Engine) Crowded() bool {
	return e.underway.Load() >= pipeFrom && !e.cluster
}

// EvalMany asks for part together with what others ask for, when there are many
// who ask. The script takes KEYS and ARGV as Part says, with the deadline behind the
// arguments that they share, and answers with an array: the server's ms, or 0, and a number for
// each caller, 0 when it has changed nothing for that one; or too little, when it
// has changed nothing at all. The answer is 0 also when there are not many; the
// caller then asks by the script that serves one. What holds for Eval holds here.
func (e *Engine) EvalMany(ctx context.Context, part *Part) (answer int64, err error) {
	d := part.Deadline
	if e.cluster || e.ring || d.NotAfter != 0 && d.Ahead < (manyBound+clockSlack).Milliseconds() || ctx.Err() != nil {
		return 0, nil
	}
	if _, ok := ctx.(*acked); ok {
		return 0, nil
	}
	e.underway.Add(1)
	defer e.underway.Add(-1)
	j := e.pipe.add(nil, part)
	if j == nil {
		return 0, nil
	}
	answered, err := e.await(ctx, j.done)
	if answered {
		answer = j.answer
		j.over()
	}
	if err != nil {
		e.suspect(err)
		return 0, err
	}
	return answer, nil
}

// AcquireMany runs a script for many by which part asks for a lease. done is false
// when that has not settled it.
func (e *Engine) AcquireMany(ctx context.Context, part *Part, lease time.Duration) (g Grant, done bool, err error) {
	n, err := e.EvalMany(ctx, part)
	switch {
	case err != nil || n == 0:
		return g, false, err
	case n > 0:
		return Grant{Verdict: Granted, Left: lease}, true, nil
	}
	return Grant{Verdict: Refused, Left: time.Duration(-n) * time.Millisecond}, true, nil
}

// A party are callers who are served by one run of a script.
type party struct {
	of  []*piped
	cmd scriptCmd
}

// seat puts a part with those it may be served with.
func seat(parties []party, j *piped) []party {
	for i := len(parties) - 1; i >= max(0, len(parties)-partiesSeen); i-- {
		p := &parties[i]
		if len(p.of) < manyMost && p.of[0].part.with(&j.part) {
			p.of = append(p.of, j)
			return parties
		}
	}
	return append(parties, party{of: []*piped{j}})
}

// command makes the command that serves p.
func (p *party) command(ctx context.Context, name string, script any) scriptCmd {
	first := &p.of[0].part
	shared, keys, each := filled(first.SharedKeys[:]), filled(first.Keys[:]), filled(first.Args[:])
	n := len(p.of)
	args := make([]any, 0, Head+len(first.SharedKeys)+len(first.SharedArgs)+2+(keys+each)*n)
	args = append(args, name, script, shared+keys*n)
	args = append(args, first.SharedKeys[:shared]...)
	d := first.Deadline
	for k := range keys {
		for _, j := range p.of {
			args = append(args, j.part.Keys[k])
			if j.part.Deadline.NotAfter < d.NotAfter {
				d = j.part.Deadline
			}
		}
	}
	args = append(args, first.SharedArgs[:filled(first.SharedArgs[:])]...)
	args = append(args, d.NotAfter, d.Ahead)
	for _, j := range p.of {
		args = append(args, j.part.Args[:each]...)
	}
	cmd := scriptCmd{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(Head)
	return cmd
}

// filled returns how many are not nil, from the first on.
func filled(list []any) (n int) {
	for n < len(list) && list[n] != nil {
		n++
	}
	return n
}

// serve tells those of p what has come of it. It returns the error of a command
// that may have been carried out.
func (e *Engine) serve(p *party) error {
	err := p.cmd.Err()
	var reply redis.Error
	switch {
	case err == nil:
		script := p.of[0].part.Script
		if k := &e.known[script.Index]; !k.Load() {
			k.Store(true)
		}
		answers, _ := p.cmd.Val().([]any)
		if len(answers) > 0 {
			if ms, ok := answers[0].(int64); ok && ms > 0 {
				e.server.learn(time.Now(), ms)
			}
			answers = answers[1:]
		}
		for i, j := range p.of {
			if i < len(answers) {
				j.answer, _ = answers[i].(int64)
			}
			j.done <- nil
		}
	case errors.As(err, &reply) && Sort(err) != Maybe:
		// Each will learn by itself what is wrong with its own.
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
func (e *Engine) unknown(carry func([]redis.Cmder), parties []party) {
	var again []redis.Cmder
	for i := range parties {
		p := &parties[i]
		if err := p.cmd.Err(); err == nil || !isCode(err, "NOSCRIPT") {
			continue
		}
		script := p.of[0].part.Script
		if e.known[script.Index].Load() {
			e.watchdog.Recheck()
		}
		p.cmd = p.command(context.Background(), "eval", script.Source)
		again = append(again, p.cmd)
	}
	if len(again) > 0 {
		carry(slices.Clip(again))
	}
}
