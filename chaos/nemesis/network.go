package nemesis

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// networkFaults are those between clients and servers. Half of the clients go through
// the proxies, and so does the other half not.
func networkFaults() []Fault {
	return []Fault{{
		Name: "kill-connections", What: "CLIENT KILL TYPE normal, every 20 ms",
		On:   []string{stage.Single, stage.AOF, stage.Cluster}, // a Sentinel would take that for a primary that is down
		Live: true, Span: 400 * ms,
		Do: func(p *Play) {
			p.every(20*ms, func() {
				for _, i := range p.Masters() {
					p.killed(p.On(i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
				}
			})
		},
	}, {
		Name: "kill-subscribers", What: "CLIENT KILL TYPE pubsub, every 30 ms", On: anywhere, Live: true, Span: 500 * ms,
		Do: func(p *Play) {
			p.every(30*ms, func() {
				for _, i := range p.Masters() {
					p.killed(p.On(i, "CLIENT", "KILL", "TYPE", "pubsub"))
				}
			})
		},
	}, {
		Name: "resets", What: "all connections through the proxies are reset, every 40 ms", On: anywhere, Live: true, Span: 400 * ms,
		Do: func(p *Play) {
			p.every(40*ms, func() {
				for _, x := range p.Proxies {
					p.Proved(int64(x.CutAll()))
				}
			})
		},
	}, {
		Name: "half-open", What: "a black hole on the way of half of the clients, for less than a lease", On: anywhere, Live: true, Hole: true, Span: 900 * ms,
		Do: muted, Undo: unmuted,
	}, {
		Name: "partition", What: "a black hole on the way of half of the clients, for longer than a lease", On: alone, Live: true, Hole: true, Span: 2600 * ms,
		Do: muted, Undo: unmuted,
	}, {
		Name: "latency", What: "50 ms of latency, with jitter", On: anywhere, Live: true, Span: 700 * ms,
		Do: func(p *Play) {
			p.wg.Go(func() {
				p.eachProxy(func(x *redistest.Proxy) { x.Delay(50 * ms) })
				p.seen(p.Took(0, true, "PING") >= 50*ms)
			})
			p.wg.Wait()
			p.every(25*ms, func() {
				p.eachProxy(func(x *redistest.Proxy) { x.Delay(time.Duration(p.Rand.IntN(80)) * ms) })
			})
		},
		Undo: func(p *Play) { p.eachProxy(func(x *redistest.Proxy) { x.Delay(0) }) },
	}, {
		Name: "late", What: "answers that come after the end of the lease", On: alone, Live: true, Span: 2500 * ms,
		Do: func(p *Play) {
			p.eachProxy(func(x *redistest.Proxy) { x.Delay(2200 * ms) })
			p.wg.Go(func() { p.seen(p.Took(0, true, "PING") >= 2200*ms) })
		},
		Undo: func(p *Play) { p.eachProxy(func(x *redistest.Proxy) { x.Delay(0) }) },
	}, {
		Name: "lost-replies", What: "scripts run, and their answers are lost", On: anywhere, Live: true, Span: 500 * ms,
		Do:   func(p *Play) { p.act(5, redistest.LoseRST, redistest.LoseFIN, redistest.Swallow) },
		Undo: func(p *Play) { p.acted(redistest.LoseRST, redistest.LoseFIN, redistest.Swallow) },
	}, {
		Name: "lost-requests", What: "requests that never arrive", On: anywhere, Live: true, Late: true, Span: 500 * ms,
		Do:   func(p *Play) { p.act(5, redistest.RefuseRST, redistest.Drop) },
		Undo: func(p *Play) { p.acted(redistest.RefuseRST, redistest.Drop) },
	}, {
		Name: "late-requests", What: "requests that arrive when nobody waits for them any more", On: alone, Live: true, Late: true, Span: 700 * ms,
		Do: func(p *Play) {
			p.eachProxy(func(x *redistest.Proxy) { x.HoldFor(1500 * ms) })
			p.act(20, redistest.Late)
		},
		Undo: func(p *Play) { p.acted(redistest.Late) },
	}, {
		Name: "twice", What: "scripts that run twice", On: anywhere, Live: true, Span: 500 * ms,
		Do:   func(p *Play) { p.act(2, redistest.Twice) },
		Undo: func(p *Play) { p.acted(redistest.Twice) },
	}}
}

// killed counts connections from the reply of CLIENT KILL.
func (p *Play) killed(reply []string) {
	for _, n := range reply {
		n, _ := strconv.ParseInt(n, 10, 64)
		p.Proved(n)
	}
}

func muted(p *Play) {
	p.eachProxy(func(x *redistest.Proxy) { x.Mute(true) })
	p.seen(p.Silent(0, true))
}

func unmuted(p *Play) { p.eachProxy(func(x *redistest.Proxy) { x.Mute(false) }) }

func (p *Play) eachProxy(f func(*redistest.Proxy)) {
	for _, x := range p.Proxies {
		f(x)
	}
}

// act does one of the acts to about one in n scripts.
func (p *Play) act(n int, acts ...redistest.Act) {
	p.base = p.counts(acts)
	for _, x := range p.Proxies {
		r := rand.New(rand.NewPCG(p.Rand.Uint64(), 1))
		x.OnCommand(func(args []string) redistest.Act {
			if strings.HasPrefix(strings.ToLower(args[0]), "eval") && r.IntN(n) == 0 {
				return acts[r.IntN(len(acts))]
			}
			return redistest.Pass
		})
	}
}

// acted ends act, and counts.
func (p *Play) acted(acts ...redistest.Act) {
	p.eachProxy(func(x *redistest.Proxy) { x.OnCommand(nil) })
	p.Proved(p.counts(acts) - p.base)
}

func (p *Play) counts(acts []redistest.Act) int64 {
	var sum int64
	for _, x := range p.Proxies {
		for _, a := range acts {
			sum += x.Count(a)
		}
	}
	return sum
}
