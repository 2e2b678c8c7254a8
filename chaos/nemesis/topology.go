package nemesis

import (
	"time"

	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// topologyFaults are those of several servers.
func topologyFaults() []Fault {
	sentinel, cluster := []string{stage.Sentinel}, []string{stage.Cluster}
	return []Fault{{
		Name: "failover", What: "the primary is killed, and the Sentinels name another", On: sentinel, Loss: true, Span: 1000 * ms,
		Do: func(p *Play) {
			old, promoted := p.Sentinels.Failover(p.T, (*redistest.Server).Kill)
			p.node = old
			p.seen(old != promoted)
		},
		Undo: func(p *Play) { p.Nodes[p.node].Restart(p.T); p.Sentinels.Settle(p.T) },
	}, {
		Name: "failover-frozen", What: "the primary is frozen, replaced, and comes back", On: sentinel, Loss: true, Span: 1000 * ms,
		Do: func(p *Play) {
			old, promoted := p.Sentinels.Failover(p.T, (*redistest.Server).Freeze)
			p.node = old
			p.seen(old != promoted)
		},
		Undo: func(p *Play) { p.Nodes[p.node].Thaw(); p.Sentinels.Settle(p.T) },
	}, {
		Name: "failover-unheard", What: "the replicas hear nothing for a second; then the primary is killed", On: sentinel, Loss: true, Span: 1000 * ms,
		Do: func(p *Play) {
			old, promoted := p.Sentinels.Failover(p.T, p.unheard)
			p.node = old
			p.seen(old != promoted)
		},
		Undo: func(p *Play) { p.Nodes[p.node].Restart(p.T); p.Sentinels.Settle(p.T) },
	}, {
		Name: "cluster-failover", What: "a master is killed, and its replica takes over", On: cluster, Loss: true, Live: true, Span: 500 * ms,
		Do: func(p *Play) {
			old, promoted := p.Cluster.Failover(p.T, p.slot())
			p.node = old
			p.seen(old != promoted)
		},
		Undo: func(p *Play) { p.Cluster.Rejoin(p.T, p.node) },
	}, {
		Name: "cluster-switch", What: "a replica takes over from its master in an orderly way", On: cluster, Moves: true, Live: true, Span: 300 * ms,
		Do: func(p *Play) {
			old, promoted := p.Cluster.Switch(p.T, p.slot())
			p.seen(old != promoted)
		},
	}, {
		Name: "slot-moves", What: "slots move with their keys, again and again", On: cluster, Moves: true, Live: true, Span: 300 * ms,
		Do: func(p *Play) {
			for range 3 {
				slot := p.slot()
				from := p.Cluster.Owner(p.T, slot)
				var to int
				for _, to = range p.Masters() {
					if to != from {
						break
					}
				}
				p.Cluster.MoveSlot(p.T, slot, from, to)
				p.seen(p.Cluster.Owner(p.T, slot) == to)
			}
		},
	}}
}

// slot returns the slot of an object that is worked on.
func (p *Play) slot() int {
	return p.Cluster.Slot(p.T, p.Names[p.Rand.IntN(len(p.Names))])
}

// unheard kills a primary after its replicas have heard nothing of it for a while.
// (What had been sent to them before the kill would be in their sockets otherwise.)
func (p *Play) unheard(primary *redistest.Server) {
	var replicas []*redistest.Server
	for _, n := range p.Nodes {
		if n != primary {
			replicas = append(replicas, n)
			n.Freeze()
		}
	}
	p.killed(primary.Do(p.T, "CLIENT", "KILL", "TYPE", "replica"))
	time.Sleep(400 * ms)
	primary.Kill()
	for _, n := range replicas {
		n.Thaw()
	}
}
