package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

// A connection is what the flags say about Redis. It opens sessions.
type connection struct{ connect.Flags }

// publishes returns how a command publishes releases: in a cluster both ways,
// because the mode of the waiters is unknown.
func (c *connection) publishes() latchkey.PubSubMode {
	if c.Cluster {
		return latchkey.PubSubBoth
	}
	return latchkey.PubSubAuto
}

// A session is a command's access to Redis.
type session struct {
	rdb    redis.UniversalClient
	client *latchkey.Client
	addr   string // for messages
}

// closing makes the end of ctx close the connections, until stop is called: go-redis
// would wait for a server that is silent in the midst of a scan.
func (s *session) closing(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.rdb.Close() })
}

// session runs f and converts its error to one with an exit code. A signal that
// ends processes ends ctx and then the command.
func (c *connection) session(f func(ctx context.Context, s *session) error, opts ...latchkey.Option) error {
	rdb, addr, err := c.Open()
	if err != nil {
		return err
	}
	defer rdb.Close()
	s := &session{rdb: rdb, client: latchkey.New(rdb, opts...), addr: addr}
	defer s.client.Close()
	ctx, stop := runner.Interruptible(context.Background())
	defer stop()
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	c.OnRefusal(func(err error) {
		refuse(connect.Unavailable(addr, err))
		_ = rdb.Close() // no further request or clean-up
	})
	err = f(ctx, s)
	var e *exit.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil || errors.As(err, &e):
		return err
	}
	return s.failed(ctx, err)
}

// failed returns the error to report for a command that failed because of Redis
// or of the object.
func (s *session) failed(ctx context.Context, err error) error {
	var e *latchkey.Error
	if !errors.As(err, &e) {
		return connect.Unavailable(s.addr, err)
	}
	switch {
	case errors.Is(err, latchkey.ErrKeyConflict):
		return exit.Errorf(exit.Failed, "%s: the key is %s", text.Name(e.Name), object.WhatIs(ctx, s.client, e.Name))
	case errors.Is(err, latchkey.ErrNotHeld):
		return exit.Errorf(exit.Conflict, "%s: %v", text.Name(e.Name), e.Err)
	case e.MaybeApplied():
		return exit.Errorf(exit.Unavailable, "Redis at %s: %s; it may have been done all the same", s.addr, text.Harmless(e.Err.Error()))
	}
	return connect.Unavailable(s.addr, err)
}

// confirm asks whether to go on, unless yes is set. A signal that ends ctx ends
// the question.
func confirm(ctx context.Context, yes bool, question string, args ...any) error {
	if yes {
		return nil
	}
	in, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return exit.Usagef("there is nobody to ask here: --yes goes on without asking")
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
			return exit.Errorf(exit.Failed, "nothing was done")
		}
		return nil
	case <-ctx.Done():
		fmt.Fprintln(in)
		return context.Cause(ctx)
	}
}
