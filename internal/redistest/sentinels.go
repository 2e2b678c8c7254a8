package redistest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinelName is what Sentinels call the primary.
const sentinelName = "primary"

// Sentinels is a primary with two replicas, and three Sentinels that watch it.
type Sentinels struct {
	Nodes     []*Server // the first one is the primary at the start
	Sentinels []*Server
}

// StartSentinels runs a primary, two replicas and three Sentinels, and returns when
// all know each other, which takes about three seconds. A primary that does not
// answer for half a second is taken for dead. args are appended to the command
// line of the first three.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	Long(t, "Sentinels")
	args = append([]string{"--repl-ping-replica-period", "1"}, args...)
	s := &Sentinels{Nodes: []*Server{Start(t, args...)}}
	primary := s.Nodes[0]
	for range 2 {
		r := Start(t, append([]string{"--replicaof", "127.0.0.1", primary.portText()}, args...)...)
		s.Nodes = append(s.Nodes, r)
	}
	for _, r := range s.Nodes[1:] {
		waitSynced(t, r)
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, StartSentinel(t, sentinelName, primary,
			"sentinel down-after-milliseconds "+sentinelName+" 500",
			// When no Sentinel wins the vote, the next one is after twice that.
			"sentinel failover-timeout "+sentinelName+" 2000",
			"sentinel parallel-syncs "+sentinelName+" 2"))
	}
	for _, w := range s.Sentinels {
		// Once in that time it tries to reach a primary, the dead one or the new one. By
		// itself that is a second, and half of the time it would take the new one for
		// dead before it had tried.
		w.debug("PING-PERIOD", "200")
		Until(t, "the Sentinels to know each other", func() bool {
			state, err := w.do("SENTINEL", "MASTER", sentinelName)
			return err == nil && pairOf(state, "num-slaves") == "2" && pairOf(state, "num-other-sentinels") == "2"
		})
	}
	return s
}

// Tune makes the Sentinels fit for long runs on a machine that is busy. Two of them
// must take a primary for dead before it is replaced, and not for a moment in which
// one was kept from its own work: a second and a half. What is not as they want it
// they put right within five seconds, where that can be set, not within ten to twenty.
func (s *Sentinels) Tune(t testing.TB) {
	t.Helper()
	for _, w := range s.Sentinels {
		w.Do(t, "SENTINEL", "SET", sentinelName, "quorum", "2", "down-after-milliseconds", "1500")
		w.debug("INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500")
	}
}

// debug sets how often a Sentinel does something, in ms. Before Redis 7.0 that cannot
// be set, and nothing happens.
func (s *Server) debug(args ...string) {
	_, _ = s.do(append([]string{"SENTINEL", "DEBUG"}, args...)...)
}

// pairOf returns the value of a field in a reply of names and values.
func pairOf(reply []string, name string) string {
	for i := 0; i+1 < len(reply); i += 2 {
		if reply[i] == name {
			return reply[i+1]
		}
	}
	return ""
}

// Client returns a new client that finds the primary through the Sentinels, with
// go-redis's default options, changed by opts. It is closed at the end of the test.
func (s *Sentinels) Client(t testing.TB, opts ...func(*redis.FailoverOptions)) *redis.Client {
	t.Helper()
	o := &redis.FailoverOptions{MasterName: sentinelName, ContextTimeoutEnabled: Inline()}
	for _, w := range s.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, w.Addr)
	}
	for _, f := range opts {
		f(o)
	}
	c := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Primary returns the index in Nodes of what is the primary, as most Sentinels and
// it itself say; -1 while there is none.
func (s *Sentinels) Primary() int {
	votes := make([]int, len(s.Nodes))
	for _, w := range s.Sentinels {
		addr, err := w.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelName)
		if err != nil || len(addr) != 2 {
			continue
		}
		for i, n := range s.Nodes {
			if strconv.Itoa(n.port) == addr[1] {
				votes[i]++
			}
		}
	}
	for i, n := range votes {
		if n < 2 {
			continue
		}
		if info, err := s.Nodes[i].do("INFO", "replication"); err == nil && infoField(info[0], "role") == "master" {
			return i
		}
	}
	return -1
}

// Failovers returns how many times the Sentinels have named another primary.
func (s *Sentinels) Failovers() int {
	most := 0
	for _, w := range s.Sentinels {
		if state, err := w.do("SENTINEL", "MASTER", sentinelName); err == nil {
			n, _ := strconv.Atoi(pairOf(state, "config-epoch"))
			most = max(most, n)
		}
	}
	return most
}

// Failover takes the primary away (by [Server.Kill], or [Server.Freeze]) and waits
// until the Sentinels name another one, which takes about two seconds. It returns the
// index in Nodes of both.
func (s *Sentinels) Failover(t testing.TB, away func(*Server)) (old, promoted int) {
	t.Helper()
	old = s.Primary()
	if old < 0 {
		t.Fatal("redistest: there is no primary to fail over from")
	}
	away(s.Nodes[old])
	if !poll(30*time.Second, func() bool {
		promoted = s.Primary()
		return promoted >= 0 && promoted != old
	}) {
		t.Fatalf("redistest: no replica was promoted; the log of a Sentinel ends\n%s", tail(s.Sentinels[0].Log()))
	}
	return old, promoted
}

// settled is how long it may take the Sentinels to be at one: a failover that came
// to nothing is tried again after four seconds, and a server that is not in its
// role is put right after up to twenty, see [Sentinels.Tune].
const settled = 60 * time.Second

// Settle waits until all Sentinels name the same primary, none is at a failover, and
// all other nodes follow that primary. It only looks. Whoever gives a node its role
// beside the Sentinels may do so to one that they promote just then: they insist on a
// primary that takes no writes, and need more than twenty seconds to see that.
func (s *Sentinels) Settle(t testing.TB) {
	t.Helper()
	why := ""
	if !poll(settled, func() bool { why = s.unsettled(); return why == "" }) {
		t.Fatalf("redistest: the Sentinels are not at one after %v: %s; the log of one ends\n%s", settled, why, tail(s.Sentinels[0].Log()))
	}
}

// unsettled says why the Sentinels are not at one, nothing if they are.
func (s *Sentinels) unsettled() string {
	port := ""
	for i, w := range s.Sentinels {
		state, err := w.do("SENTINEL", "MASTER", sentinelName)
		if err != nil {
			return err.Error()
		}
		named := pairOf(state, "port")
		switch flags := pairOf(state, "flags"); {
		case flags != "master":
			return fmt.Sprintf("for Sentinel %d the primary is %s", i, flags)
		case port != "" && named != port:
			return fmt.Sprintf("one names %s, another %s", port, named)
		}
		port = named
	}
	for _, n := range s.Nodes {
		info, err := n.do("INFO", "replication")
		switch {
		case err != nil:
			return err.Error()
		case n.portText() == port:
			if role := infoField(info[0], "role"); role != "master" {
				return fmt.Sprintf("%s is named as the primary, and is a %s", port, role)
			}
		case infoField(info[0], "master_port") != port || infoField(info[0], "master_link_status") != "up":
			return fmt.Sprintf("%s does not follow %s", n.portText(), port)
		}
	}
	return ""
}
