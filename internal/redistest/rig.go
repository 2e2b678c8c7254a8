package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// Program runs f as a test runs its body, in a program that is not a test. It
// passes f the testing.TB that the functions of this package take. After f has
// ended, it runs the cleanups in reverse order. It returns the error with which
// f or they fail. log receives the log and may be nil.
func Program(ctx context.Context, log func(string), f func(t testing.TB)) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &rig{ctx: ctx, log: log}
	r.call(func() { f(r) })
	cancel()
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}

// rig is a testing.TB without a test. Its methods behave as package testing
// documents.
type rig struct {
	testing.TB // for its unexported method; nil
	ctx        context.Context
	log        func(string)

	mu       sync.Mutex
	errs     []error
	cleanups []func()
}

// call runs f on a goroutine of its own, which Fatal can end.
func (r *rig) call(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *rig) end() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		r.call(f)
	}
}

func (r *rig) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, errors.New(text))
}

func (r *rig) Name() string             { return "program" }
func (r *rig) Helper()                  {}
func (r *rig) Context() context.Context { return r.ctx }
func (r *rig) Error(args ...any)        { r.fail(fmt.Sprint(args...)) }

func (r *rig) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }

func (r *rig) Fatal(args ...any) {
	r.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *rig) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *rig) FailNow() {
	runtime.Goexit()
}

// Skip fails: a program that cannot do its task has failed.
func (r *rig) Skip(args ...any) { r.Fatal(args...) }

func (r *rig) Log(args ...any) { r.Logf("%s", fmt.Sprint(args...)) }

func (r *rig) Logf(format string, args ...any) {
	if r.log != nil {
		r.log(fmt.Sprintf(format, args...))
	}
}

func (r *rig) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs) > 0
}

func (r *rig) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *rig) TempDir() string {
	dir, err := os.MkdirTemp("", "latchkey-")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
