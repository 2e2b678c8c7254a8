// Package stage is what a campaign plays on: servers of one topology, a proxy
// before each of them, and how clients, in this process or another, reach them.
package stage

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/chaos/clock"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// The topologies.
const (
	Single   = "single"   // one server that keeps nothing over a restart
	AOF      = "aof"      // one server with an append-only file
	Sentinel = "sentinel" // a primary, two replicas, three Sentinels
	Cluster  = "cluster"  // three masters, a replica for each
)

// Topologies are all of them.
var Topologies = []string{Single, AOF, Sentinel, Cluster}

// A Stage is running servers.
type Stage struct {
	T         testing.TB
	Topology  string
	Nodes     []*redistest.Server
	Proxies   []*redistest.Proxy // one for each of Nodes
	Sentinels *redistest.Sentinels
	Cluster   *redistest.Cluster

	direct, proxied Spec
	skew            time.Duration // of the clock of a single server
}

// A Spec says how to reach the servers. It can be handed to another process.
type Spec struct {
	Topology string
	Addrs    []string          // of the servers, or of the Sentinels
	Master   string            // as the Sentinels call it
	Via      map[string]string // address of a server -> where to dial instead
}

func init() { redis.SetLogger(silent{}) }

// silent swallows what go-redis says of every connection that is refused.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// New starts servers, which end with the test. With clocks, that of a single server
// can be moved.
func New(t testing.TB, topology string, clocks bool) *Stage {
	t.Helper()
	s := &Stage{T: t, Topology: topology}
	single := func(args ...string) {
		start := func() { s.Nodes = []*redistest.Server{redistest.Start(t, args...)} }
		if !clocks {
			start()
			return
		}
		t.Cleanup(clock.Remove)
		if err := clock.Servers(start); err != nil {
			t.Fatal(err)
		}
	}
	switch topology {
	case Single:
		single()
	case AOF:
		single("--appendonly", "yes", "--appendfsync", "always")
	case Sentinel:
		s.Sentinels = redistest.StartSentinels(t)
		s.Sentinels.Tune(t)
		s.Nodes = s.Sentinels.Nodes
	case Cluster:
		s.Cluster = redistest.StartClusterWithReplicas(t, 3)
		s.Nodes = s.Cluster.Nodes
	default:
		t.Fatalf("no such topology: %s (there are %s)", topology, strings.Join(Topologies, ", "))
	}
	s.direct = Spec{Topology: topology}
	for _, n := range s.Nodes {
		s.direct.Addrs = append(s.direct.Addrs, n.Addr)
	}
	if s.Sentinels != nil {
		s.direct.Addrs = nil
		for _, w := range s.Sentinels.Sentinels {
			s.direct.Addrs = append(s.direct.Addrs, w.Addr)
		}
		_ = s.Sentinels.Client(t, func(o *redis.FailoverOptions) { s.direct.Master = o.MasterName })
	}
	s.proxied = s.direct
	s.proxied.Via = map[string]string{}
	for _, n := range s.Nodes {
		p := redistest.NewProxy(t, n.Addr)
		s.Proxies = append(s.Proxies, p)
		s.proxied.Via[n.Addr] = p.Addr()
	}
	return s
}

// Spec says how to reach the servers, straight or through the proxies.
func (s *Stage) Spec(proxied bool) Spec {
	if proxied {
		return s.proxied
	}
	return s.direct
}

var connects atomic.Int64

// Connect returns a new client with go-redis's default options, and every other time
// with ContextTimeoutEnabled.
func (s Spec) Connect() redis.UniversalClient {
	inline := connects.Add(1)%2 == 0
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if via, ok := s.Via[addr]; ok {
			addr = via
		}
		return dialer.DialContext(ctx, network, addr)
	}
	switch s.Topology {
	case Sentinel:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Master, SentinelAddrs: s.Addrs, Dialer: dial, ContextTimeoutEnabled: inline})
	case Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addrs, Dialer: dial, ContextTimeoutEnabled: inline})
	}
	return redis.NewClient(&redis.Options{Addr: s.Addrs[0], Dialer: dial, ContextTimeoutEnabled: inline})
}

// SkewBy moves the clock of a single server by d from where it is.
func (s *Stage) SkewBy(d time.Duration) error {
	s.skew += d
	return clock.Of(s.Nodes[0]).Wall(s.skew)
}

// Masters returns the indexes in Nodes of those that take writes.
func (s *Stage) Masters() []int {
	switch s.Topology {
	case Sentinel:
		if i := s.Sentinels.Primary(); i >= 0 {
			return []int{i}
		}
		return nil
	case Cluster:
		var masters []int
		for _, slot := range []int{0, 6000, 12000} {
			masters = append(masters, s.Cluster.Owner(s.T, slot))
		}
		return masters
	}
	return []int{0}
}

// Failovers returns how many failovers there have been, of Sentinels; 0 elsewhere.
func (s *Stage) Failovers() int {
	if s.Sentinels == nil {
		return 0
	}
	return s.Sentinels.Failovers()
}

// On runs a command on a node. A Sentinel that changes a node's role cuts all
// connections, so it tries again.
func (s *Stage) On(node int, args ...string) []string {
	var err error
	for range 3 {
		var reply []string
		if reply, err = s.Nodes[node].Ask(args...); err == nil {
			return reply
		}
	}
	s.T.Fatalf("%s: %v", strings.Join(args, " "), err)
	return nil
}

// Do runs a command on every master.
func (s *Stage) Do(args ...string) {
	for _, i := range s.Masters() {
		s.On(i, args...)
	}
}

// ErrorCount returns how many errors of a kind ("NOSCRIPT") the servers have
// answered since they were started.
func (s *Stage) ErrorCount(kind string) int64 {
	var sum int64
	for _, i := range s.Masters() {
		sum += number(s.On(i, "INFO", "errorstats")[0], "errorstat_"+kind+":count=")
	}
	return sum
}

// Stat returns the sum of a field of INFO over the masters.
func (s *Stage) Stat(section, field string) int64 {
	var sum int64
	for _, i := range s.Masters() {
		sum += number(s.On(i, "INFO", section)[0], field+":")
	}
	return sum
}

// number returns the number behind a prefix of a line, 0 if there is none.
func number(info, prefix string) int64 {
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			n, _ := strconv.ParseInt(rest[:max(0, end)], 10, 64)
			return n
		}
	}
	return 0
}

// Keys returns the names of all keys on the masters.
func (s *Stage) Keys() []string {
	var keys []string
	for _, i := range s.Masters() {
		keys = append(keys, s.On(i, "KEYS", "*")...)
	}
	return keys
}

// Silent says whether a server gives no answer within a tenth of a second, when asked
// straight or through its proxy.
func (s *Stage) Silent(node int, proxied bool) bool {
	addr := s.Nodes[node].Addr
	if proxied {
		addr = s.Proxies[node].Addr()
	}
	return s.ask(addr, 100*time.Millisecond, "PING") != nil
}

// Took returns how long a server takes for a command on a new connection.
func (s *Stage) Took(node int, proxied bool, args ...string) time.Duration {
	addr := s.Nodes[node].Addr
	if proxied {
		addr = s.Proxies[node].Addr()
	}
	start := time.Now()
	_ = s.ask(addr, 5*time.Second, args...)
	return time.Since(start)
}

func (s *Stage) ask(addr string, limit time.Duration, args ...string) error {
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// Version returns the version of the servers.
func (s *Stage) Version() string {
	for line := range strings.Lines(s.On(0, "INFO", "server")[0]) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Expires says whether a key is gone, or will be.
func (s *Stage) Expires(key string) bool {
	i := 0
	switch {
	case s.Cluster != nil:
		i = s.Cluster.Owner(s.T, s.Cluster.Slot(s.T, key))
	case s.Sentinels != nil:
		i = s.Masters()[0]
	}
	return s.On(i, "PTTL", key)[0] != "-1"
}
