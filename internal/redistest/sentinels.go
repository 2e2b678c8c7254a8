package redistest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinelName is the name of the primary for the Sentinels.
const sentinelName = "primary"

// Sentinels is a primary with two replicas, and three Sentinels that watch it.
type Sentinels struct {
	Nodes     []*Server // the first one is the primary at the start
	Sentinels []*Server
}

// StartSentinels runs a primary, two replicas and three Sentinels, and returns
// when all know each other, which takes about three seconds. A primary that
// does not answer for half a second is taken for dead. args are appended to the
// command lines of the first three.
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
			// If no Sentinel wins the vote, the next vote is after twice that
			// time.
			"sentinel failover-timeout "+sentinelName+" 2000",
			"sentinel parallel-syncs "+sentinelName+" 2"))
	}
	for _, w := range s.Sentinels {
		// A Sentinel tries to reach a primary, dead or new, once in that time.
		// The default is a second, and half of the time the Sentinel would take
		// the new primary for dead before it had tried.
		w.debug("PING-PERIOD", "200")
		Until(t, "the Sentinels to know each other", func() bool {
			state, err := w.do("SENTINEL", "MASTER", sentinelName)
			return err == nil && pairOf(state, "num-slaves") == "2" && pairOf(state, "num-other-sentinels") == "2"
		})
	}
	return s
}

// Tune makes the Sentinels fit for long runs on a busy machine. Two of them
// must take a primary for dead before it is replaced, and only after a second
// and a half, because a Sentinel may have been kept from its own work for a
// moment. They correct the roles of servers within five seconds, if that can be
// set, instead of ten to twenty.
func (s *Sentinels) Tune(t testing.TB) {
	t.Helper()
	for _, w := range s.Sentinels {
		w.Do(t, "SENTINEL", "SET", sentinelName, "quorum", "2", "down-after-milliseconds", "1500")
		w.debug("INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500")
	}
}

// debug sets the period of a Sentinel's task in ms. Before Redis 7.0 that is
// impossible, and debug does nothing.
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

// Primary returns the index in Nodes of the primary, according to most
// Sentinels and to itself, or -1 while there is none.
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

// Failover takes the primary away (by [Server.Kill] or [Server.Freeze]) and
// waits until the Sentinels name another one, which takes about two seconds. It
// returns the index in Nodes of both.
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

// settled is how long the Sentinels may take to agree. A failed failover is
// tried again after four seconds, and the role of a server is corrected after
// up to twenty; see [Sentinels.Tune].
const settled = 60 * time.Second

// Settle waits until all Sentinels name the same primary, none runs a failover,
// and all other nodes follow that primary. It changes nothing. A test that sets
// the role of a node itself might hit a node that the Sentinels are promoting:
// they would insist on a primary that takes no writes, and need more than
// twenty seconds to notice.
func (s *Sentinels) Settle(t testing.TB) {
	t.Helper()
	why := ""
	if !poll(settled, func() bool { why = s.unsettled(); return why == "" }) {
		t.Fatalf("redistest: the Sentinels are not at one after %v: %s; the log of one ends\n%s", settled, why, tail(s.Sentinels[0].Log()))
	}
}

// unsettled returns why the Sentinels do not agree, or "" if they do.
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
