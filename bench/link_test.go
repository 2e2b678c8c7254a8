package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/bench/internal/relay"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// linkDelay is how long a link takes, each way.
const linkDelay = 200 * time.Microsecond

// linkChild is set, to the address of a server, in the process that relays to it.
const linkChild = "LATCHKEY_LINK_CHILD"

// linkServe is the process of a link. It says what to connect to, and ends with its stdin.
func linkServe(server string) error {
	r, err := relay.Start(server, linkDelay)
	if err != nil {
		return err
	}
	fmt.Println(r.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, r.Close())
}

// link starts a link to s in a process of its own, and returns what has a client use it.
func link(b *testing.B, s *redistest.Server) func(*redis.Options) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), linkChild+"="+s.Addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	addr, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return func(o *redis.Options) {
		o.Addr = strings.TrimSpace(addr)
		o.ContextTimeoutEnabled = true
	}
}

// BenchmarkLink is the link itself: what a PING takes longer by it, both ways. A
// perfect one adds twice its delay.
func BenchmarkLink(b *testing.B) {
	s := redistest.Start(b)
	straight, far := s.Client(b), s.Client(b, link(b, s))
	ctx := context.Background()
	ping := func(rdb *redis.Client) float64 {
		start := time.Now()
		must(b, rdb.Ping(ctx).Err())
		return float64(time.Since(start).Nanoseconds()) / 1e3
	}
	ping(straight)
	ping(far)
	var added []float64
	for b.Loop() {
		for range block {
			added = append(added, ping(far)-ping(straight))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(added), "added-µs")
	b.ReportMetric(added[len(added)/10], "added-p10-µs")
	b.ReportMetric(added[len(added)*9/10], "added-p90-µs")
}

// BenchmarkLinkUncontended is BenchmarkUncontended over a link, with a context that
// can be cancelled.
func BenchmarkLinkUncontended(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client(b, link(b, s))
	turns(b, floorPair(b, rdb), lockPair(b, rdb))
}

// BenchmarkLinkWakeUp is BenchmarkWakeUp with a link between both clients and the server.
func BenchmarkLinkWakeUp(b *testing.B) {
	wakeRounds(b, func(b *testing.B) (floor, ours float64) {
		b.Helper()
		s := redistest.Start(b)
		defer s.Kill()
		far := link(b, s)
		return wakeRound(b, s.Client(b, far), s.Client(b, far))
	})
}

// floorPair returns SET NX PX and compare-and-delete.
func floorPair(b *testing.B, rdb *redis.Client) func() {
	b.Helper()
	ctx := context.Background()
	return func() {
		ok, err := rdb.SetNX(ctx, "floor", "token", lease).Result()
		must(b, err)
		if !ok {
			b.Fatal("the floor's lock was taken")
		}
		must(b, compareAndDelete.Run(ctx, rdb, []string{"floor"}, "token").Err())
	}
}

// lockPair returns Lock and Unlock, with a context that can be cancelled.
func lockPair(b *testing.B, rdb *redis.Client, opts ...latchkey.Option) func() {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	c := latchkey.New(rdb, opts...)
	b.Cleanup(func() { must(b, c.Close()) })
	l := rlock.New(c, "ours")
	return func() { // must is Helper too, which takes longer than half a Lock
		h, err := l.Lock(ctx)
		if err == nil {
			err = h.Unlock(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// wakeRounds has an iteration be a round, and reports the middle of the rounds' ratios.
func wakeRounds(b *testing.B, round func(b *testing.B) (floor, ours float64)) {
	b.Helper()
	var floors, all, ratios []float64
	for b.Loop() {
		floor, ours := round(b)
		floors, all, ratios = append(floors, floor), append(all, ours), append(ratios, ours/floor)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floors)/1e3, "floor-µs")
	b.ReportMetric(median(all)/1e3, "latchkey-µs")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(slices.Min(ratios), "least")
	b.ReportMetric(slices.Max(ratios), "most")
}
