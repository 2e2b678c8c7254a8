package matrix

import (
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// failoverLease is that of holds that shall outlive a failover, which takes two or
// three seconds, and four more when the first vote of the Sentinels was split.
const failoverLease = 10 * time.Second

// patient has releases outlive a failover, too.
var patient = latchkey.WithUnlockTimeout(failoverLease)

// outlives is what is right where one takes longer, now and then, than the 3 s for
// which a call tries that has had no answer.
var outlives = want{"k", "kaf", "kaf", "k"}

// What is right when a replica takes over that has not heard of anything: as after
// a restart with nothing.
var (
	forgets       = want{"l", "kraf", "klaf", "ed"}
	forgetsExcept = map[byte]want{
		'S': {"k", "kraf", "kaf", "kr"},
		'P': {"l", "kraf", "klaf", "r"},
		'C': {"k", "kaf", "klaf", "dk"},
	}
)

// replicaRows are what replicas, Sentinels and a Cluster bring with them.
var replicaRows = []*row{
	{
		id: "B1", fast: true, lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) { r.sentinels() },
		fault: func(r *rig, begun func()) {
			r.synced()
			r.failover(func(s *redistest.Server) { s.Kill(); begun() })
		},
		want: outlives,
	},
	{
		id: "B2", lossy: true, lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) {
			r.sentinels()
			r.cutReplicas(r.several.Nodes[1:])
		},
		fault: func(r *rig, begun func()) {
			r.failover(func(s *redistest.Server) {
				s.Kill()
				for _, n := range r.several.Nodes[1:] {
					n.Thaw()
				}
				begun()
			})
		},
		want: forgets, except: forgetsExcept,
	},
	{
		id: "B3", fast: true, limit: 5 * time.Second,
		start: func(r *rig) {
			r.single()
			r.replicas = []*redistest.Server{redistest.StartReplica(r, r.server), redistest.StartReplica(r, r.server)}
			r.options = append(r.options, latchkey.WithReplicaAck(2, 1500*time.Millisecond))
		},
		fault: func(r *rig, begun func()) {
			r.replicas[1].Freeze()
			r.happened(1)
			begun()
			r.sleep(2 * time.Second)
			r.replicas[1].Thaw()
			r.sleep(300 * time.Millisecond)
		},
		want:   want{"k", "f", "k", "k"},
		except: map[byte]want{'C': keeps}, // to begin a count and to count down is not replicated for sure
	},
	{
		id:      "B4",
		remarks: map[byte]string{0: "the Sentinels choose whom they promote"},
		lossy:   true, lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) {
			r.sentinels()
			r.several.Nodes[1].Do(r, "CONFIG", "SET", "replica-priority", "10")
			r.sleep(1500 * time.Millisecond) // for the Sentinels to hear of it
			r.cutReplicas(r.several.Nodes[1:2])
			r.options = append(r.options, latchkey.WithReplicaAck(1, time.Second))
		},
		fault: func(r *rig, begun func()) {
			r.failover(func(s *redistest.Server) {
				s.Kill()
				r.several.Nodes[1].Thaw()
				begun()
			})
		},
		// Which of the two is promoted is the Sentinels' to choose: with the one that
		// had confirmed nothing is lost.
		want: want{"kl", "kraf", "klaf", "kedr"},
	},
	{
		id: "B5", lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) { r.sentinels() },
		fault: func(r *rig, begun func()) {
			r.synced()
			r.failover(func(s *redistest.Server) { s.Freeze(); begun() })
			r.thawed()
		},
		want: outlives,
	},
	{
		id: "B6", fast: true,
		fault: func(r *rig, begun func()) {
			r.do("REPLICAOF", "127.0.0.1", "1") // where nobody is
			if err := r.admin.Set(r.ctx, "x", "x", 0).Err(); err != nil && strings.HasPrefix(err.Error(), "READONLY") {
				r.happened(1)
			}
			begun()
			r.sleep(time.Second)
			r.do("REPLICAOF", "NO", "ONE")
		},
		want: retries,
	},
	{
		id: "B7", fast: true,
		fault: func(r *rig, begun func()) {
			r.do("CONFIG", "SET", "min-replicas-to-write", 3)
			if err := r.admin.Set(r.ctx, "x", "x", 0).Err(); err != nil && strings.HasPrefix(err.Error(), "NOREPLICAS") {
				r.happened(1)
			}
			begun()
			r.sleep(time.Second)
			r.do("CONFIG", "SET", "min-replicas-to-write", 0)
		},
		want: retries,
	},
	{
		id: "B8", fast: true, lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) { r.clustered(redistest.StartClusterWithReplicas(r, 3)) },
		fault: func(r *rig, begun func()) {
			master := r.cluster.Nodes[r.cluster.Owner(r, r.slot())]
			r.copied(master.Client(r), 1)
			go func() { // what it would take in yet could be lost
				for conn, err := net.Dial("tcp", master.Addr); err == nil; conn, err = net.Dial("tcp", master.Addr) {
					_ = conn.Close()
					r.sleep(5 * time.Millisecond)
				}
				begun()
			}()
			r.cluster.Failover(r, r.slot())
			r.happened(1)
		},
		want: outlives,
	},
	{
		id: "B9", lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) { r.clustered(redistest.StartCluster(r, 3)) },
		fault: func(r *rig, begun func()) {
			begun()
			for range 10 {
				from := r.cluster.Owner(r, r.slot())
				r.cluster.MoveSlot(r, r.slot(), from, (from+1)%3)
				r.happened(1)
			}
		},
		want: outlives,
	},
	{
		id:      "B10",
		remarks: map[byte]string{0: "for 4 s; a call that is refused for 3 s gives up"},
		lease:   failoverLease, limit: 14 * time.Second,
		start: func(r *rig) { r.clustered(redistest.StartCluster(r, 3)) },
		fault: func(r *rig, begun func()) {
			from := r.cluster.Owner(r, r.slot())
			r.cluster.OpenSlot(r, r.slot(), from, (from+1)%3)
			r.happened(1)
			begun()
			r.sleep(4 * time.Second)
			r.cluster.MoveSlot(r, r.slot(), from, (from+1)%3)
		},
		// A call that has had no answer tries for 3 s.
		want: want{"k", "kraf", "kaf", "k"},
	},
	{
		id: "B11", lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) { r.clustered(redistest.StartCluster(r, 3)) },
		fault: func(r *rig, begun func()) {
			own := r.cluster.Owner(r, r.slot())
			for i, n := range r.cluster.Nodes {
				if i != own {
					n.Freeze()
				}
			}
			rdb := r.cluster.Nodes[own].Client(r)
			redistest.Until(r, "the cluster to be down", func() bool {
				err := rdb.Set(r.ctx, r.name('-', "probe"), "x", time.Second).Err()
				return err != nil && strings.HasPrefix(err.Error(), "CLUSTERDOWN")
			})
			r.happened(1)
			begun()
			r.sleep(1500 * time.Millisecond)
			for i, n := range r.cluster.Nodes {
				if i != own {
					n.Thaw()
				}
			}
			r.cluster.WaitOK(r)
		},
		want: retries,
	},
	{
		id: "B12", lossy: true, lease: failoverLease, limit: 14 * time.Second,
		start: func(r *rig) {
			r.skewable(func() { r.sentinels() })
			for _, n := range r.several.Nodes[1:] {
				r.skew(n, 20*time.Second)
			}
		},
		fault: func(r *rig, begun func()) {
			r.synced()
			r.failover(func(s *redistest.Server) { s.Kill(); begun() })
		},
		want: want{"l", "kraf", "klaf", "ed"},
		except: map[byte]want{
			'S': outlives, 'C': outlives, 'P': {"l", "kraf", "klaf", "ed"},
		},
	},
}

// sentinels sets up a primary, two replicas and three Sentinels.
func (r *rig) sentinels() {
	r.several = redistest.StartSentinels(r)
	r.several.Tune(r)
	r.options = append(r.options, patient)
	r.admin = r.several.Client(r)
	r.connect = func(int, ...func(*redis.Options)) redis.UniversalClient {
		return r.several.Client(r, func(o *redis.FailoverOptions) { o.PoolSize = 60 })
	}
}

// clustered sets up what a Cluster needs: all names lie in one slot.
func (r *rig) clustered(c *redistest.Cluster) {
	r.cluster, r.tag = c, "{"+r.row+"}"
	r.options = append(r.options, patient)
	r.admin = c.Client(r)
	r.connect = func(int, ...func(*redis.Options)) redis.UniversalClient {
		return c.Client(r, func(o *redis.ClusterOptions) { o.PoolSize = 60 })
	}
}

// slot returns the slot of all names.
func (r *rig) slot() int { return r.cluster.Slot(r, r.tag) }

// failover takes the primary away and waits until there is another.
func (r *rig) failover(away func(*redistest.Server)) {
	r.several.Failover(r, func(s *redistest.Server) {
		r.gone = s
		away(s)
	})
	r.happened(1)
}

// thawed lets a primary go on that failover has frozen: as a replica, soon.
func (r *rig) thawed() {
	r.sleep(time.Second)
	r.gone.Thaw()
	r.sleep(time.Second)
}

// synced waits until both replicas have what has been written.
func (r *rig) synced() { r.copied(r.admin, 2) }

// copied waits until so many replicas have what has been written.
func (r *rig) copied(rdb redis.UniversalClient, replicas int) {
	redistest.Until(r, "the replicas to have it all", func() bool {
		pipe := rdb.Pipeline() // WAIT is about what this connection has written
		pipe.Set(r.ctx, r.tag+"mark", "x", 100*time.Millisecond)
		n := pipe.Do(r.ctx, "WAIT", replicas, 1000)
		_, err := pipe.Exec(r.ctx)
		got, _ := n.Int()
		return err == nil && got == replicas
	})
}

// cutReplicas has replicas hear nothing more: they are frozen, and what is on its
// way to them is lost with their connections. Others connect again.
func (r *rig) cutReplicas(nodes []*redistest.Server) {
	for _, n := range nodes {
		n.Freeze()
	}
	r.do("CLIENT", "KILL", "TYPE", "replica")
	if len(nodes) == 1 {
		r.copied(r.admin, 1)
	}
}
