// Package figures measures single numbers that are claimed: each starts a server of
// its own, does the one thing very often, and says what was seen.
package figures

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
)

// A Figure is a number that is claimed, and what was seen.
type Figure struct {
	Name    string
	Claim   string
	Seen    string
	Failure string // empty if what was seen bears the claim out
	Took    time.Duration
}

// A Measure is how a Figure is made. Size says how often the thing is done.
type Measure struct {
	Name string
	Size int // in full
	run  func(ctx context.Context, t testing.TB, size int, f *Figure)
}

// All are all measures.
var All = []Measure{
	{"lost-replies", 100_000, lostReplies},
	{"ghosts", 1_000, ghosts},
	{"hand-offs", 200_000, handOffs},
	{"cancel", 1_000, cancels},
}

// Run measures.
func (m Measure) Run(ctx context.Context, t testing.TB, size int) Figure {
	f := Figure{Name: m.Name}
	start := time.Now()
	m.run(ctx, t, size, &f)
	f.Took = time.Since(start)
	return f
}

func (f *Figure) fail(format string, args ...any) {
	f.Failure += fmt.Sprintf(format, args...) + "; "
}

// connect returns a client with go-redis's default options, and what closes both.
func connect(addr string, opts ...latchkey.Option) (*latchkey.Client, func()) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	c := latchkey.New(rdb, opts...)
	return c, func() {
		_ = c.Close()
		_ = rdb.Close()
	}
}
