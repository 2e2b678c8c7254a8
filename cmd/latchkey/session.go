package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
)

// A session is what a command has of Redis.
type session struct {
	rdb    redis.UniversalClient
	client *latchkey.Client
	addr   string // for messages
}

// session runs f, and turns what it returns into an error with an exit code. A
// signal that ends processes ends ctx, and then the command.
func (c *connection) session(f func(ctx context.Context, s *session) error, opts ...latchkey.Option) error {
	rdb, addr, err := c.open()
	if err != nil {
		return err
	}
	defer rdb.Close()
	s := &session{rdb: rdb, client: latchkey.New(rdb, opts...), addr: addr}
	defer s.client.Close()
	ctx, stop := interruptible(context.Background())
	defer stop()
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	c.door.shut(func(err error) {
		refuse(unavailable(addr, err))
		_ = rdb.Close() // nothing is asked again, or cleaned up
	})
	err = f(ctx, s)
	var e *exit
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil || errors.As(err, &e):
		return err
	}
	return s.failed(ctx, err)
}

// failed is the error of a command that Redis, or what is there, did not allow.
func (s *session) failed(ctx context.Context, err error) error {
	var e *latchkey.Error
	if !errors.As(err, &e) {
		return unavailable(s.addr, err)
	}
	switch {
	case errors.Is(err, latchkey.ErrKeyConflict):
		return exitf(exitFailed, "%s: the key is %s", shownName(e.Name), whatIs(ctx, s.client, e.Name))
	case errors.Is(err, latchkey.ErrNotHeld):
		return exitf(exitConflict, "%s: %v", shownName(e.Name), e.Err)
	case e.MaybeApplied():
		return exitf(exitUnavailable, "Redis at %s: %s; it may have been done all the same", s.addr, harmless(e.Err.Error()))
	}
	return unavailable(s.addr, err)
}

// interruptible returns a context that signals end which end processes; its
// cause is then what the process ends with.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := runner.CatchSignals()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				if runner.EndsWait(sig) {
					cancel(endedBy(sig))
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		close(done)
	}
}

// confirm asks whether to go on, unless that was said already. A signal that ends
// ctx is an answer too.
func confirm(ctx context.Context, yes bool, question string, args ...any) error {
	if yes {
		return nil
	}
	in, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return usagef("there is nobody to ask here: --yes goes on without asking")
	}
	defer in.Close()
	fmt.Fprintf(in, question+" [y/N] ", args...)
	answered := make(chan string, 1)
	go func() {
		var answer string
		if _, err := fmt.Fscanln(in, &answer); err != nil {
			answer = ""
		}
		answered <- answer
	}()
	select {
	case answer := <-answered:
		if answer != "y" && answer != "Y" && answer != "yes" {
			return exitf(exitFailed, "nothing was done")
		}
		return nil
	case <-ctx.Done():
		fmt.Fprintln(in)
		return context.Cause(ctx)
	}
}
