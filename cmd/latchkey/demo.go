package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// demoTurn is how long a load lasts: all of them together, some of which have to wait
// for the end of a lease, less than 10 s.
const demoTurn = 350 * time.Millisecond

// embeddedNote keeps the figures from being taken for the library's.
const embeddedNote = `The server in memory is one program with the workers, and many times slower than
Redis: the figures below say that it works, not how fast (for that: --url).
`

// redlockNote says the same of the one scenario that never plays on a server of others.
const redlockNote = `The last, redlock, needs five servers, and has them in memory, where they are slow.
`

// demoFlags are the flags of demo.
type demoFlags struct {
	duration         time.Duration
	workers, clients int
}

func newDemo(conn *connection) *cobra.Command {
	var f demoFlags
	out := new(printer)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show every primitive at work, on a server in memory or on yours",
		Long:  demoHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out.to(cmd.OutOrStdout())
			people := out.Writer
			if out.json {
				people = io.Discard
			}
			if !cmd.Flags().Changed("clients") {
				f.clients = max(min(f.clients, f.workers), 1)
			}
			results, err := f.results(people, conn)
			if out.json && results != nil {
				err = errors.Join(out.show(results, nil), err)
			}
			return err
		},
	}
	f.register(cmd.Flags(), demoTurn, 64, 4)
	printVar(cmd, out)
	return cmd
}

// register adds the flags.
func (f *demoFlags) register(fs *pflag.FlagSet, duration time.Duration, workers, clients int) {
	durationVar(fs, &f.duration, "duration", "", duration, "how long each load lasts")
	fs.IntVar(&f.workers, "workers", workers, "how many goroutines compete")
	fs.IntVar(&f.clients, "clients", clients, "how many clients they belong to")
}

// check checks the flags of a command. least is how many workers it needs.
func (f *demoFlags) check(command string, least int) error {
	switch {
	case f.workers < least || f.workers > 100_000:
		return usagef("%s: --workers must be between %d and 100000, not %d", command, least, f.workers)
	case f.clients < 1 || f.clients > f.workers:
		return usagef("%s: --clients must be between 1 and the number of workers, not %d", command, f.clients)
	case f.duration <= 0:
		return usagef("%s: --duration must be positive", command)
	}
	return nil
}

// results plays all scenarios. They are nil if there was nothing to play on.
func (f *demoFlags) results(out io.Writer, conn *connection) ([]*demoResult, error) {
	if err := f.check("demo", 2); err != nil {
		return nil, err
	}
	server, err := openDemoServer(conn, "demo")
	if err != nil {
		return nil, err
	}
	defer server.close()

	ctx, stop := interruptible(context.Background())
	v := newDemoView(out)
	fmt.Fprintf(out, "%d workers on %d clients, %s: %d loads of %v or a little more\n", f.workers, f.clients, harmless(server.about), len(demoScenarios), f.duration)
	if server.embedded {
		fmt.Fprint(out, embeddedNote)
	} else {
		fmt.Fprint(out, redlockNote)
	}
	fmt.Fprintln(out)
	results := []*demoResult{}
	for _, sc := range demoScenarios {
		if ctx.Err() != nil {
			break
		}
		results = append(results, f.play(ctx, server, v, sc))
	}
	interrupted := context.Cause(ctx)
	stop() // a second Ctrl-C ends it at once

	left, err := server.clean()
	v.table(results)
	return results, verdict(out, results, left, err, interrupted)
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

// verdict says how it went. interrupted is how a signal has ended it, or nil.
func verdict(out io.Writer, results []*demoResult, left []string, cleaning, interrupted error) error {
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
	if interrupted != nil {
		fmt.Fprintln(out, "interrupted")
	}
	fmt.Fprintf(out, "violations %d\n", violations)
	switch {
	case failures != nil:
		return exitf(exitFailed, "demo: %s", strings.ReplaceAll(failures.Error(), "\n", "\ndemo: "))
	case violations > 0:
		return &exit{code: exitFailed}
	}
	return interrupted
}

// A demoServer is where the demo plays.
type demoServer struct {
	about    string // for people
	embedded bool   // in this process
	prefix   string // of all keys
	open     func() (redis.UniversalClient, error)
	keys     []string // that were used, with the prefix
	keep     []string // that never expire
	close    func()
}

func openDemoServer(conn *connection, command string) (*demoServer, error) {
	s := &demoServer{prefix: "latchkey-" + command + ":" + rand.Text()[:12] + ":", close: func() {}}
	if !conn.given() {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true) // leases end
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			return nil, exitf(exitFailed, "%s: the server in memory: %v", command, err)
		}
		s.about, s.embedded, s.close = "a server in memory", true, m.Close
		s.open = func() (redis.UniversalClient, error) {
			o := &redis.Options{Addr: m.Addr()}
			o.Dialer = conn.door.dialer(nil, 0, conn.wrap)
			return redis.NewClient(o), nil
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
