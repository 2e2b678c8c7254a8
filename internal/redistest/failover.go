package redistest

import (
	"strings"
	"testing"
	"time"
)

// StartClusterWithReplicas runs a cluster in which every master has one replica,
// see [StartCluster], and returns when all replicas have synchronized.
func StartClusterWithReplicas(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	args = append([]string{
		"--cluster-allow-replica-migration", "no", "--cluster-replica-validity-factor", "0", "--repl-ping-replica-period", "1",
	}, args...)
	c := StartCluster(t, masters, args...)
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000"}, args...)
	for i := range masters {
		s := Start(t, args...)
		c.Nodes = append(c.Nodes, s)
		c.ids = append(c.ids, s.Do(t, "CLUSTER", "MYID")[0])
		s.Do(t, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[i].portText())
	}
	for i, s := range c.Nodes[masters:] {
		Until(t, "the replica to know its master", func() bool {
			_, err := s.do("CLUSTER", "REPLICATE", c.ids[i])
			return err == nil
		})
	}
	c.WaitOK(t)
	for _, s := range c.Nodes[masters:] {
		waitSynced(t, s)
	}
	return c
}

// Failover kills the master that serves a slot, as a power cut would, and waits
// until its replica serves it, which takes two or three seconds. It returns the
// index in Nodes of both.
func (c *Cluster) Failover(t testing.TB, slot int) (old, promoted int) {
	t.Helper()
	old = c.Owner(t, slot)
	c.Nodes[old].Kill()
	promoted = (old + len(c.Nodes)/2) % len(c.Nodes)
	s := c.Nodes[promoted]
	if !poll(20*time.Second, func() bool {
		info, err := s.do("INFO", "replication")
		if err != nil || infoField(info[0], "role") != "master" {
			return false
		}
		state, err := s.do("CLUSTER", "INFO")
		return err == nil && infoField(state[0], "cluster_state") == "ok"
	}) {
		t.Fatalf("redistest: the replica was not promoted; its log ends\n%s", tail(s.Log()))
	}
	return old, promoted
}

// Switch makes the replica of the master that serves a slot take over in an
// orderly way: nothing that was acknowledged is lost. It returns the index in
// Nodes of both.
func (c *Cluster) Switch(t testing.TB, slot int) (old, promoted int) {
	t.Helper()
	old = c.Owner(t, slot)
	promoted = (old + len(c.Nodes)/2) % len(c.Nodes)
	// Masters do not vote twice within two node timeouts, so a first attempt
	// soon after another failover may fail. It is given up after 5 s.
	for tries := 0; c.Owner(t, slot) != promoted; tries++ {
		if tries == 4 {
			t.Fatalf("redistest: the replica did not take over; its log ends\n%s", tail(c.Nodes[promoted].Log()))
		}
		c.Nodes[promoted].Do(t, "CLUSTER", "FAILOVER")
		poll(5*time.Second, func() bool { return c.Owner(t, slot) == promoted })
	}
	c.WaitOK(t)
	waitSynced(t, c.Nodes[old])
	return old, promoted
}

// Rejoin restarts a node that Failover has killed and waits until it is a
// replica of the promoted one.
func (c *Cluster) Rejoin(t testing.TB, node int) {
	t.Helper()
	c.Nodes[node].Restart(t)
	c.WaitOK(t)
	waitSynced(t, c.Nodes[node])
}

// waitSynced waits until a replica has all that its master has.
func waitSynced(t testing.TB, s *Server) {
	t.Helper()
	Until(t, "the replica to synchronize", func() bool { return synced(s) })
}

func synced(s *Server) bool {
	info, err := s.do("INFO", "replication")
	return err == nil && infoField(info[0], "role") == "slave" && infoField(info[0], "master_link_status") == "up"
}

// tail returns the last lines of a log.
func tail(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
