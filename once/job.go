package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/rlock"
)

// ErrLate is the error of a Do that came too late to begin; see NotLaterThan.
var ErrLate = errors.New("too late to begin")

// A Job is run once for each fire. It is safe for concurrent use.
type Job struct {
	engine  *engine.Engine
	locks   latchkey.Client // its objects are named by their keys
	spec    *engine.Spec
	scripts *scripts
	cfg     config
}

// New returns the job with the given name. It does no I/O. It panics if c is nil, the
// name is empty, or an option is invalid. All schedulers of a job use the same
// options.
func New(c *latchkey.Client, name string, opts ...Option) *Job {
	if c == nil {
		panic("once: New: the client is nil")
	}
	if err := names.Check(name); err != nil {
		panic(fmt.Sprintf("once: New: %v", err))
	}
	cfg := config{keep: 7 * 24 * time.Hour, attempts: 1}
	for _, o := range opts {
		o.apply(&cfg)
	}
	if cfg.wrong != nil {
		panic(fmt.Sprintf("once: New: %v", cfg.wrong))
	}
	e := engine.Of(c)
	s := &scripts{engine: e, key: engine.Mapped(c, name), oneAtATime: cfg.oneAtATime}
	runs := names.Runs(s.key)
	spec := e.Prepare(&engine.Spec{Kind: "once", Name: name, Key: runs, Keys: []string{runs, names.Fire(s.key, "")}})
	j := &Job{engine: e, spec: spec, scripts: s, cfg: cfg}
	engine.Unprefixed(&j.locks, c)
	return j
}

// Name returns the name of the job.
func (j *Job) Name() string { return j.spec.Name }

// Every returns the present fire of a job that runs once in every d: now, rounded down
// to a multiple of d since the year 1 in UTC, so to a whole minute, hour or day.
//
// A timer that is early gets the fire before. A daily job near midnight UTC can get one
// fire on two days when daylight saving begins: pass Do the scheduled time instead.
func Every(d time.Duration) time.Time { return time.Now().Truncate(d) }

// Do calls fn for a fire, unless another Do has called its function or is at it. ran
// reports whether fn was called. If there was nothing to do, ran is false and err is
// nil.
//
// With Skip, Do returns at once when somebody else runs the fire. With Retry or
// NoOverlap it waits for the end of that run, or of ctx. A fire that fails here and
// has attempts left is run again, here or elsewhere; Do returns when it is done or
// given up.
//
// fn's context is done when the lock is lost, when AtMost is over, and when ctx is
// done; see [latchkey.Hold.Context].
//
// err is that of the last call of fn, or nil if the fire is done in the end. If the lock
// was lost, err is or contains [latchkey.ErrLeaseLost]: fn may have run on beside the
// next attempt. ErrLate means that it was too late to call fn, and [latchkey.ErrReentry]
// that the holder in ctx runs the job already. If Redis does not answer after fn, err
// says so, and the run counts as lost when the lease has ended.
func (j *Job) Do(ctx context.Context, fire time.Time, fn func(context.Context) error) (ran bool, err error) {
	if ms := fire.UnixMilli(); ms <= 0 || ms >= 1<<53 {
		return false, j.engine.Wrap("do", j.spec, fmt.Errorf("the fire %v is no time of a job", fire))
	}
	if err := sleep(ctx, j.cfg.jitter); err != nil {
		return false, err
	}
	f := j.fire(fire)
	for {
		st, readErr := f.read(ctx)
		switch {
		case readErr != nil:
			return ran, errors.Join(err, readErr)
		case st.state == stateDone:
			if !errors.Is(err, latchkey.ErrLeaseLost) {
				err = nil // of an attempt before the one that has done it
			}
			return ran, err
		case st.attempt >= j.cfg.attempts:
			return ran, err
		}
		again, called, runErr := f.attempt(ctx, fn)
		if called {
			ran, err = true, runErr
		} else if runErr != nil {
			return ran, errors.Join(err, runErr)
		}
		if !again || ctx.Err() != nil {
			return ran, err
		}
	}
}

// A fire is one fire of a job.
type fire struct {
	*Job
	at   time.Time
	text string // ms since the epoch
	lock latchkey.Locker
}

func (j *Job) fire(at time.Time) *fire {
	text := strconv.FormatInt(at.UnixMilli(), 10)
	f := &fire{Job: j, at: at, text: text}
	if key := j.scripts.lock(text); j.cfg.oneAtATime {
		f.lock = fairlock.New(&j.locks, key) // in the order of the fires
	} else {
		f.lock = rlock.New(&j.locks, key)
	}
	return f
}

// attempt acquires the lock of the fire and calls fn if there is still something to
// do. again is set if there may be something to do after that; err is that of fn, or
// the reason why fn was not called.
func (f *fire) attempt(ctx context.Context, fn func(context.Context) error) (again, called bool, err error) {
	h, err := f.acquire(ctx)
	var taken *latchkey.TakenError
	if errors.As(err, &taken) {
		return false, false, nil // somebody else runs it
	}
	if err != nil {
		return false, false, err
	}
	call := newCall()
	st, err := f.begin(ctx, h, call)
	if err != nil || st.status != begun {
		_ = h.Unlock(ctx) // it ends with its lease at the latest
		switch {
		case err != nil:
			return false, false, err
		case st.status == late:
			return false, false, f.engine.Wrap("do", f.spec, ErrLate)
		case st.status == reentry:
			return false, false, f.engine.Wrap("do", f.spec, engine.ErrReentry)
		}
		return true, false, nil // the run says what became of it
	}
	failed := "panic" // until fn returns
	err = engine.During(
		func() error {
			err := fn(h.Context())
			if failed = ""; err != nil {
				failed = engine.ErrorText(err)
			}
			return err
		},
		func() error {
			out := context.WithoutCancel(ctx)
			err := f.finish(out, h, call, failed)
			_ = h.Unlock(out) // it ends with its lease at the latest
			return err
		},
	)
	return err != nil, true, err
}

func (f *fire) acquire(ctx context.Context) (*latchkey.Hold, error) {
	var opts []latchkey.LockOption
	if f.cfg.atMost > 0 {
		opts = append(opts, latchkey.MaxHold(f.cfg.atMost))
	}
	if f.cfg.label != "" {
		opts = append(opts, latchkey.Label(f.cfg.label))
	}
	if f.cfg.attempts == 1 && !f.cfg.oneAtATime {
		return f.lock.TryLock(ctx, opts...)
	}
	return f.lock.Lock(ctx, opts...)
}

// sleep waits for a random time of up to most.
func sleep(ctx context.Context, most time.Duration) error {
	if most <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(rand.N(most) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
