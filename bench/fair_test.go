package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// fairChild is set, to the address of the server and the number of goroutines,
// in the processes that BenchmarkFair starts.
const fairChild = "LATCHKEY_FAIR_CHILD"

func TestMain(m *testing.M) {
	for variable, serve := range map[string]func(task string) error{fairChild: fairServe, linkChild: linkServe} {
		task := os.Getenv(variable)
		if task == "" {
			continue
		}
		if err := serve(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A pass takes the one thing there is, and gives it back.
type pass func(ctx context.Context) error

// passes returns how to pass a token by BLPOP and how to pass the fair lock.
func passes(rdb *redis.Client, c *latchkey.Client) (token, lock pass) {
	l := fairlock.New(c, "ours")
	token = func(ctx context.Context) error {
		// A second at a time: BLPOP does not hear of the end of ctx.
		err := rdb.BLPop(ctx, time.Second, "floor").Err()
		if errors.Is(err, redis.Nil) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		return rdb.RPush(context.WithoutCancel(ctx), "floor", "token").Err()
	}
	lock = func(ctx context.Context) error {
		h, err := l.Lock(ctx)
		if err != nil {
			return err
		}
		return h.Unlock(ctx)
	}
	return token, lock
}

// pool is enough connections for the goroutines that block in BLPOP.
func pool(goroutines int) func(*redis.Options) {
	return func(o *redis.Options) { o.PoolSize = goroutines + 20 }
}

// spin passes with n goroutines for d, and returns how often each has, once all
// are at it.
func spin(n int, d time.Duration, p pass) ([]int64, error) {
	return spinAll(n, d, func(int) pass { return p })
}

// spinEach is spin with a pass for each goroutine, and returns how often all have.
func spinEach(n int, d time.Duration, p func(i int) pass) (int64, error) {
	counts, err := spinAll(n, d, p)
	sum, _ := total(counts)
	return sum, err
}

func spinAll(n int, d time.Duration, each func(i int) pass) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	counts := make([]int64, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		p := each(i)
		wg.Go(func() {
			for ctx.Err() == nil {
				// The pass itself is not cut short: the queue is left whole.
				if err := p(context.Background()); err != nil {
					errs[i] = err
					return
				}
				if ctx.Err() == nil {
					counts[i]++
				}
			}
		})
	}
	wg.Wait()
	return counts, errors.Join(errs...)
}

// fairServe is a process of BenchmarkFair: for each line "floor 300ms" it passes
// for that long and answers with the counts.
func fairServe(task string) error {
	addr, count, _ := strings.Cut(task, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	o := &redis.Options{Addr: addr}
	pool(n)(o)
	rdb := redis.NewClient(o)
	c := latchkey.New(rdb)
	token, lock := passes(rdb, c)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		what, length, _ := strings.Cut(in.Text(), " ")
		d, err := time.ParseDuration(length)
		if err != nil {
			return err
		}
		counts, err := spin(n, d, map[string]pass{"floor": token, "ours": lock}[what])
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
			return err
		}
	}
	return errors.Join(c.Close(), rdb.Close())
}

// A fleet is processes that pass.
type fleet struct {
	in  []io.WriteCloser
	out []*json.Decoder
}

func newFleet(b *testing.B, addr string, processes, goroutines int) *fleet {
	b.Helper()
	f := &fleet{}
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fairChild+"="+addr+" "+strconv.Itoa(goroutines/processes))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must(b, err)
		out, err := cmd.StdoutPipe()
		must(b, err)
		must(b, cmd.Start())
		f.in, f.out = append(f.in, in), append(f.out, json.NewDecoder(out))
		b.Cleanup(func() {
			_ = in.Close()
			must(b, cmd.Wait())
		})
	}
	return f
}

func (f *fleet) spin(b *testing.B, what string, d time.Duration) []int64 {
	b.Helper()
	for _, in := range f.in {
		_, err := fmt.Fprintln(in, what, d)
		must(b, err)
	}
	var all []int64
	for _, out := range f.out {
		var counts []int64
		must(b, out.Decode(&counts))
		all = append(all, counts...)
	}
	return all
}

// total returns the sum, and the least over the greatest.
func total(counts []int64) (sum int64, evenness float64) {
	for _, n := range counts {
		sum += n
	}
	return sum, float64(slices.Min(counts)) / float64(max(slices.Max(counts), 1))
}

// sent returns how many commands clients have sent that have to do with waiting
// and with scripts.
func sent(b *testing.B, s *redistest.Server) (n int64) {
	b.Helper()
	stats := s.CommandStats(b)
	for _, name := range []string{"evalsha", "eval", "subscribe", "unsubscribe"} {
		n += stats[name]
	}
	return n
}

// BenchmarkFair is the fair lock passed round by 64 goroutines that all want it
// all the time, against a token that they pass by BLPOP and RPUSH.
func BenchmarkFair(b *testing.B) {
	const goroutines, d = 64, 500 * time.Millisecond
	for _, processes := range []int{1, 4} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			s := redistest.Start(b)
			rdb := s.Client(b)
			must(b, rdb.RPush(context.Background(), "floor", "token").Err())
			f := newFleet(b, s.Addr, processes, goroutines)
			f.spin(b, "floor", d)
			f.spin(b, "ours", d)
			var floors, all, ratios, evens, commands []float64
			for b.Loop() {
				x, _ := total(f.spin(b, "floor", d))
				before := sent(b, s)
				y, even := total(f.spin(b, "ours", d))
				commands = append(commands, float64(sent(b, s)-before)/float64(y))
				floors, all = append(floors, float64(x)/d.Seconds()), append(all, float64(y)/d.Seconds())
				ratios, evens = append(ratios, float64(y)/float64(x)), append(evens, even)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(floors), "floor/s")
			b.ReportMetric(median(all), "latchkey/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(evens), "poorest/richest")
			b.ReportMetric(median(commands), "commands/op")
		})
	}
}

// BenchmarkFairQueue is a hand-over with so many in the queue, against one with
// ten.
func BenchmarkFairQueue(b *testing.B) {
	var few, many, ratios []float64
	for b.Loop() {
		x, y := ring(b, 10), ring(b, 10_000)
		few, many, ratios = append(few, x), append(many, y), append(ratios, y/x)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(few)/1e3, "10-µs")
	b.ReportMetric(median(many)/1e3, "10000-µs")
	b.ReportMetric(median(ratios), "ratio")
}

// ring lets n goroutines of one client pass a lock round for a second, and
// returns how long a hand-over takes, in ns.
func ring(b *testing.B, n int) float64 {
	b.Helper()
	s := redistest.Start(b)
	c := latchkey.New(s.Client(b))
	l := fairlock.New(c, "ring")
	ctx, stop := context.WithCancel(context.Background())
	gate, err := l.Lock(ctx)
	must(b, err)
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range n {
		wg.Go(func() {
			for {
				h, err := l.Lock(ctx)
				if err != nil {
					return
				}
				passed.Add(1)
				_ = h.Unlock(ctx)
			}
		})
	}
	for c.Stats().Waiting < n {
		time.Sleep(10 * time.Millisecond)
	}
	must(b, gate.Unlock(ctx))
	time.Sleep(200 * time.Millisecond)
	before, start := passed.Load(), time.Now()
	time.Sleep(time.Second)
	each := float64(time.Since(start).Nanoseconds()) / float64(passed.Load()-before)
	stop()
	wg.Wait()
	must(b, c.Close())
	return each
}
