package nemesis

import (
	"strconv"
	"time"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// clockFaults are wall clocks that are set. A lease of a server ends by its wall
// clock: a step forward makes all end earlier, one back later. Clients measure by
// their monotonic clock, and believe in the shorter of two times.
func clockFaults() []Fault {
	return []Fault{{
		Name: "clock-forward", What: "the server's clock steps forward, by less than a lease", On: alone, ServerClock: true, Early: true, Live: true, Span: 400 * ms,
		Do: func(p *Play) { p.step(p.upTo(200*ms, 1900*ms)) },
	}, {
		Name: "clock-leap", What: "the server's clock steps forward, by 5 s to 10 min", On: alone, ServerClock: true, Early: true, Live: true, Span: 400 * ms,
		Do: func(p *Play) { p.step(p.upTo(5*time.Second, 10*time.Minute)) },
	}, {
		Name: "clock-back", What: "the server's clock steps back, by less than a lease", On: alone, ServerClock: true, Live: true, Span: 400 * ms,
		Do:     func(p *Play) { p.step(-p.upTo(200*ms, 1900*ms)) },
		Settle: func(p *Play) { p.step(0) },
	}, {
		Name: "clock-leap-back", What: "the server's clock steps back, by 5 s to 10 min", On: alone, ServerClock: true, Live: true, Span: 400 * ms,
		Do:     func(p *Play) { p.step(-p.upTo(5*time.Second, 10*time.Minute)) },
		Settle: func(p *Play) { p.step(0) }, // or what nobody gives back would stay for so long
	}, {
		Name: "client-clock", What: "the clocks of client processes step to and fro, by 100 ms to 10 min, every 150 ms", On: anywhere, ClientClock: true, Live: true, Span: 1500 * ms,
		Do: func(p *Play) {
			p.every(150*ms, func() {
				for _, c := range p.Children {
					d := p.upTo(100*ms, []time.Duration{1900 * ms, 10 * time.Minute}[p.Rand.IntN(2)])
					if p.Rand.IntN(2) == 0 {
						d = -d
					}
					p.seen(c.Skew(d) == nil && c.Skewed(d))
				}
			})
		},
		Undo: func(p *Play) {
			for _, c := range p.Children {
				_ = c.Skew(0)
			}
		},
	}}
}

// upTo returns a whole number of milliseconds between two times, short ones as often
// as long ones.
func (p *Play) upTo(least, most time.Duration) time.Duration {
	d := least
	for d < most && p.Rand.IntN(4) > 0 {
		d *= 2
	}
	return min(most, d+time.Duration(p.Rand.Int64N(int64(d)))).Round(ms)
}

// step moves the server's clock by d from where the last round has left it, or with 0
// back to there, and proves it.
func (p *Play) step(d time.Duration) {
	s := p.Nodes[0]
	before, begin := p.time(s), time.Now()
	if d == 0 {
		d = time.Duration(p.base)
		p.base = 0
	} else {
		p.base -= int64(d)
	}
	if err := p.SkewBy(d); err != nil {
		p.T.Fatalf("moving the clock of a server: %v", err)
	}
	redistest.Until(p.T, "the clock to step", func() bool {
		return (p.time(s).Sub(before) - time.Since(begin) - d).Abs() < min(d.Abs()/2, time.Second)
	})
	p.moved = d
	p.Proved(1)
}

// time returns the time of a server.
func (p *Play) time(s *redistest.Server) time.Time {
	reply := s.Do(p.T, "TIME")
	sec, _ := strconv.ParseInt(reply[0], 10, 64)
	us, _ := strconv.ParseInt(reply[1], 10, 64)
	return time.Unix(sec, us*1000)
}
