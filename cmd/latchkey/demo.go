package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
)

const demoHelp = `demo puts every primitive to work, with many workers on several clients, as if
on several machines, and checks that what must not happen does not: two at a time
where one may be, a fencing token that is not greater than the one before, a
worker that never gets its turn.

It starts a Redis server of its own, in memory. With --url, -h or -p it uses
yours: under keys of its own, latchkey-demo:..., of which it leaves none behind
but some that expire within a minute.
REDIS_URL alone does not make it do that.

Exit status: 0 if all went well; 1 if anything was violated or failed; 69 if
Redis cannot be reached.`

// demoFlags are the flags of demo.
type demoFlags struct {
	duration         time.Duration
	workers, clients int
}

func newDemo(conn *connection) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show every primitive at work, on a server in memory or on yours",
		Long:  demoHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.OutOrStdout(), conn)
		},
	}
	durationVar(cmd.Flags(), &f.duration, "duration", "", time.Second, "how long each scenario takes")
	cmd.Flags().IntVar(&f.workers, "workers", 64, "how many goroutines compete")
	cmd.Flags().IntVar(&f.clients, "clients", 4, "how many clients they belong to")
	return cmd
}

func (f *demoFlags) run(out io.Writer, conn *connection) error {
	switch {
	case f.workers < 2 || f.workers > 100_000:
		return usagef("demo: --workers must be between 2 and 100000, not %d", f.workers)
	case f.clients < 1 || f.clients > f.workers:
		return usagef("demo: --clients must be between 1 and the number of workers, not %d", f.clients)
	case f.duration <= 0:
		return usagef("demo: --duration must be positive")
	}
	server, err := openDemoServer(conn)
	if err != nil {
		return err
	}
	defer server.close()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	v := newDemoView(out)
	fmt.Fprintf(out, "%d workers on %d clients, %s\n\n", f.workers, f.clients, server.about)
	var results []*demoResult
	for _, sc := range demoScenarios {
		if ctx.Err() != nil {
			break
		}
		results = append(results, f.play(ctx, server, v, sc))
	}
	interrupted := ctx.Err() != nil
	stop() // a second Ctrl-C ends it at once

	left, err := server.clean()
	v.table(results)
	return verdict(out, results, left, err, interrupted)
}

// play runs one scenario.
func (f *demoFlags) play(ctx context.Context, server *demoServer, v *demoView, sc demoScenario) *demoResult {
	st := newStage(sc.name, server, f)
	done := v.follow(st)
	err := sc.run(ctx, st)
	if cerr := st.close(); err == nil {
		err = cerr
	}
	r := st.result()
	if err != nil && ctx.Err() == nil {
		r.err = err
	}
	done(r)
	return r
}

// verdict says how it went.
func verdict(out io.Writer, results []*demoResult, left []string, cleaning error, interrupted bool) error {
	var violations uint64
	failures := cleaning
	for _, r := range results {
		violations += r.violations
		if r.err != nil {
			failures = errors.Join(failures, fmt.Errorf("%s: %w", r.name, r.err))
		}
	}
	if len(left) > 0 {
		failures = errors.Join(failures, fmt.Errorf("left behind in Redis: %s", strings.Join(left, ", ")))
	}
	if interrupted {
		fmt.Fprintln(out, "interrupted")
	}
	fmt.Fprintf(out, "violations %d\n", violations)
	switch {
	case failures != nil:
		return exitf(exitFailed, "demo: %s", strings.ReplaceAll(failures.Error(), "\n", "\nlatchkey: demo: "))
	case violations > 0:
		return &exit{code: exitFailed}
	case interrupted:
		return &exit{code: exitSignal + int(syscall.SIGINT)}
	}
	return nil
}

// A demoServer is where the demo plays.
type demoServer struct {
	about  string // for people
	prefix string // of all keys
	open   func() (redis.UniversalClient, error)
	keys   []string // that were used, with the prefix
	keep   []string // that never expire
	close  func()
}

func openDemoServer(conn *connection) (*demoServer, error) {
	s := &demoServer{prefix: "latchkey-demo:" + rand.Text()[:12] + ":", close: func() {}}
	if !conn.given() {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true) // leases end
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			return nil, exitf(exitFailed, "demo: the server in memory: %v", err)
		}
		s.about, s.close = "a server in memory", m.Close
		s.open = func() (redis.UniversalClient, error) {
			return redis.NewClient(&redis.Options{Addr: m.Addr()}), nil
		}
		return s, nil
	}
	s.open = func() (redis.UniversalClient, error) {
		rdb, addr, err := conn.open()
		s.about = "Redis at " + addr
		return rdb, err
	}
	rdb, err := s.open()
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, unavailable(strings.TrimPrefix(s.about, "Redis at "), err)
	}
	return s, nil
}

// used notes keys that the demo must not leave behind.
func (s *demoServer) used(keys ...string) { s.keys = append(s.keys, keys...) }

// kept notes keys that never expire by themselves, and that the demo deletes.
func (s *demoServer) kept(keys ...string) { s.keep = append(s.keep, keys...) }

// clean deletes what never expires, and returns what else there is still. The
// clients are closed, so it ought to be nothing.
func (s *demoServer) clean() (left []string, err error) {
	rdb, err := s.open()
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, k := range s.keep {
		err = errors.Join(err, rdb.Del(ctx, k).Err())
	}
	for _, k := range s.keys {
		n, xerr := rdb.Exists(ctx, k).Result()
		if err = errors.Join(err, xerr); n > 0 {
			left = append(left, k)
		}
	}
	return left, err
}

// newClient returns a client of the library with a connection of its own, and
// what closes both.
func (s *demoServer) newClient(opts ...latchkey.Option) (*latchkey.Client, func() error, error) {
	rdb, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	c := latchkey.New(rdb, append(opts, latchkey.WithKeyPrefix(s.prefix))...)
	return c, func() error { return errors.Join(c.Close(), rdb.Close()) }, nil
}
