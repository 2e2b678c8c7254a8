package redistest

import (
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
			"sentinel failover-timeout "+sentinelName+" 4000",
			"sentinel parallel-syncs "+sentinelName+" 2"))
	}
	for _, w := range s.Sentinels {
		Until(t, "the Sentinels to know each other", func() bool {
			state, err := w.do("SENTINEL", "MASTER", sentinelName)
			return err == nil && pairOf(state, "num-slaves") == "2" && pairOf(state, "num-other-sentinels") == "2"
		})
	}
	return s
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
	o := &redis.FailoverOptions{MasterName: sentinelName}
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
