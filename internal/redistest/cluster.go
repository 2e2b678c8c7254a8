package redistest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is the number of hash slots of a cluster.
const slots = 16384

// Cluster is a Redis Cluster.
type Cluster struct {
	// Nodes are the masters in the order of their slots, which are spread
	// evenly, followed by one replica for each, if there are any, in the same
	// order.
	Nodes []*Server
	ids   []string
}

// StartCluster runs a cluster and returns when all nodes agree that it is up,
// which takes about three seconds. The node timeout is one second; args are
// appended to each node's command line, as in StartCluster(t, 3,
// "--cluster-require-full-coverage", "no").
func StartCluster(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	Long(t, "a cluster")
	c := &Cluster{}
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000"}, args...)
	for i := range masters {
		s := Start(t, args...)
		c.Nodes = append(c.Nodes, s)
		c.ids = append(c.ids, s.Do(t, "CLUSTER", "MYID")[0])
		// A distinct epoch for each; otherwise the nodes would first have to
		// resolve the conflict.
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		first, last := slots*i/masters, slots*(i+1)/masters-1
		add := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE needs Redis 7
		for slot := first; slot <= last; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		s.Do(t, add...)
		if i > 0 {
			c.Nodes[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(s.port))
		}
	}
	c.WaitOK(t)
	return c
}

// Client returns a new client of the cluster with go-redis's default options,
// changed by opts. It is closed at the end of the test.
func (c *Cluster) Client(t testing.TB, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{ContextTimeoutEnabled: Inline()}
	for _, s := range c.Nodes {
		o.Addrs = append(o.Addrs, s.Addr)
	}
	for _, f := range opts {
		f(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// WaitOK waits until all nodes report that the cluster is up and agree on the
// owners of all slots and on the epochs that decide about them. A node that got
// another slot before it knew the newest epoch would take a lower epoch, and
// some nodes would keep the old owner for good.
func (c *Cluster) WaitOK(t testing.TB) {
	t.Helper()
	var views []string
	if poll(20*time.Second, func() bool {
		views = views[:0]
		for _, s := range c.Nodes {
			views = append(views, c.view(s))
		}
		return views[0] != "" && len(slices.Compact(slices.Clone(views))) == 1
	}) {
		return
	}
	t.Fatalf("redistest: the cluster is not up after 20s; the nodes' views:\n%s", strings.Join(views, "\n"))
}

// view returns the epoch and slots of each node as seen by s, or "" if s does
// not see the cluster up.
func (c *Cluster) view(s *Server) string {
	info, err := s.do("CLUSTER", "INFO")
	if err != nil || infoField(info[0], "cluster_state") != "ok" ||
		infoField(info[0], "cluster_known_nodes") != strconv.Itoa(len(c.Nodes)) {
		return ""
	}
	nodes, err := s.do("CLUSTER", "NODES")
	if err != nil {
		return ""
	}
	var view []string
	for line := range strings.Lines(nodes[0]) {
		// id addr flags master ping pong epoch link-state slot…
		f := strings.Fields(line)
		if len(f) < 8 || f[7] != "connected" || strings.Contains(f[2], "fail") || strings.Contains(f[2], "handshake") {
			return ""
		}
		open := slices.IndexFunc(f[8:], func(s string) bool { return s[0] == '[' })
		if open >= 0 { // only the two nodes of a slot that is being moved know of it
			f = f[:8+open]
		}
		view = append(view, f[0]+" epoch "+f[6]+" "+strings.Join(f[8:], " "))
	}
	slices.Sort(view)
	return strings.Join(view, "\n")
}

// Slot returns the hash slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	n, _ := strconv.Atoi(c.Nodes[0].Do(t, "CLUSTER", "KEYSLOT", key)[0])
	return n
}

// Owner returns the index in Nodes of the node that serves a slot, as that
// node itself says. While a replica takes over there may be none for a moment.
func (c *Cluster) Owner(t testing.TB, slot int) int {
	t.Helper()
	owner := -1
	if !poll(5*time.Second, func() bool { owner = c.owner(slot); return owner >= 0 }) {
		t.Fatalf("redistest: nobody serves slot %d", slot)
	}
	return owner
}

func (c *Cluster) owner(slot int) int {
	for i, s := range c.Nodes {
		nodes, err := s.do("CLUSTER", "NODES")
		if err != nil {
			continue // it is down
		}
		for line := range strings.Lines(nodes[0]) {
			f := strings.Fields(line)
			if !strings.Contains(f[2], "myself") || !strings.Contains(f[2], "master") {
				continue
			}
			for _, r := range f[8:] {
				a, b, ok := strings.Cut(r, "-")
				if !ok {
					b = a
				}
				first, err1 := strconv.Atoi(a)
				last, err2 := strconv.Atoi(b)
				if err1 == nil && err2 == nil && first <= slot && slot <= last {
					return i
				}
			}
		}
	}
	return -1
}

// OpenSlot begins to move a slot between two nodes, given as indexes in Nodes,
// and moves no key. The old node replies with ASK for keys that it does not
// have (with TRYAGAIN if it has some of several).
func (c *Cluster) OpenSlot(t testing.TB, slot, from, to int) {
	t.Helper()
	n := strconv.Itoa(slot)
	c.Nodes[to].Do(t, "CLUSTER", "SETSLOT", n, "IMPORTING", c.ids[from])
	c.Nodes[from].Do(t, "CLUSTER", "SETSLOT", n, "MIGRATING", c.ids[to])
}

// MoveSlot moves a slot with its keys between two nodes, given as indexes in
// Nodes, and waits until all nodes know. [Cluster.OpenSlot] may have opened the
// slot before.
func (c *Cluster) MoveSlot(t testing.TB, slot, from, to int) {
	t.Helper()
	c.OpenSlot(t, slot, from, to)
	n := strconv.Itoa(slot)
	for {
		keys := c.Nodes[from].Do(t, "CLUSTER", "GETKEYSINSLOT", n, "100")
		if len(keys) == 0 {
			break
		}
		args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(c.Nodes[to].port), "", "0", "4000", "KEYS"}
		c.Nodes[from].Do(t, append(args, keys...)...)
	}
	c.Nodes[to].Do(t, "CLUSTER", "SETSLOT", n, "NODE", c.ids[to])
	for i, s := range c.Nodes {
		if i == to {
			continue
		}
		_, err := s.do("CLUSTER", "SETSLOT", n, "NODE", c.ids[to])
		if err != nil && !strings.Contains(err.Error(), "only with masters") { // replicas learn it from their masters
			t.Fatalf("redistest: %v", err)
		}
	}
	c.WaitOK(t)
}
