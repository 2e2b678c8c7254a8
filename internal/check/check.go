// Package check inspects the servers and tries out what the primitives need of
// them.
package check

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A Level is the severity of a finding.
type Level int

// The levels of findings.
const (
	LevelOK      Level = iota // as it should be
	LevelNote                 // good to know
	LevelWarning              // works less well, or may break one day
	LevelFailure              // something does not work
)

// A Finding is the result of one check.
type Finding struct {
	Name   string // subject: "version", "eviction", …
	Server string // address; empty if the finding is about all servers
	Level  Level
	Text   string
}

// A Report is the result of Run.
type Report struct {
	Topology string
	Servers  []Server
	Findings []Finding
}

// A Server is a server's description of itself. Fields that the server does not
// report are zero.
type Server struct {
	Addr, Product, Version, Role, User string
	Replicas                           int
	MaxMemory, UsedMemory              int64
	Policy                             string
	Persistent                         bool
	RoundTrip                          time.Duration
	Clock                              time.Duration // how far ahead of ours, estimated
}

// checkBound is how long the checks of one server may take.
const checkBound = 10 * time.Second

// Run inspects the servers and tries out what the primitives need.
func Run(ctx context.Context, h engine.Host) (Report, error) {
	got, e := make(chan Report, 1), engine.Of(h)
	err := e.Aside(ctx, "check", &engine.Spec{Kind: "latchkey"}, func() error {
		c := &checker{engine: e, probed: engine.Mapped(h, "latchkey_check:")}
		err := c.run(ctx)
		got <- c.got
		return err
	})
	select {
	case r := <-got:
		return r, err
	default:
		return Report{}, err
	}
}

// A checker is a check that is running.
type checker struct {
	engine *engine.Engine
	probed string // what the names of its keys begin with
	got    Report
}

func (c *checker) find(name, server string, level Level, format string, args ...any) {
	c.got.Findings = append(c.got.Findings, Finding{name, server, level, fmt.Sprintf(format, args...)})
}

func (c *checker) run(ctx context.Context) error {
	switch rdb := c.engine.Redis().(type) {
	case *redis.ClusterClient:
		c.got.Topology = "cluster"
		if err := c.cluster(ctx, rdb); err != nil {
			return err
		}
	case *redis.Client:
		c.got.Topology = "single"
		if run.BehindSentinel(rdb) {
			c.got.Topology = "sentinel"
		}
		if err := c.server(ctx, rdb, rdb.Options().Addr, c.probe()); err != nil {
			return err
		}
	default:
		c.got.Topology = fmt.Sprintf("%T", rdb)
		c.find("topology", "", LevelNote, "a client of type %T is not looked into", rdb)
	}
	if slices.ContainsFunc(c.got.Servers, func(s Server) bool { return s.Role == RoleSentinel }) {
		return ctx.Err() // nothing else can be tried on a Sentinel
	}
	c.client()
	c.pubsub(ctx, c.probe())
	c.clocks()
	return ctx.Err()
}

// client inspects the options of the go-redis client.
func (c *checker) client() {
	if c.engine.Deadlines() {
		c.find("client", "", LevelOK, "ContextTimeoutEnabled is set: a call is back at once when its context ends")
		return
	}
	c.find("client", "", LevelNote, "ContextTimeoutEnabled is not set: a command whose context can end costs a goroutine, "+
		"and keeps its connection until the read timeout when the server is silent")
}

// probe returns the name of an unused key.
func (c *checker) probe() string { return c.probed + rand.Text() }

// cluster checks each master, with a key of that master.
func (c *checker) cluster(ctx context.Context, rdb *redis.ClusterClient) error {
	rdb.ReloadState(ctx)
	var nodes []*redis.Client
	masters := make(chan *redis.Client, 1024)
	if err := rdb.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		masters <- node
		return nil
	}); err != nil {
		return err
	}
	close(masters)
	for node := range masters {
		nodes = append(nodes, node)
	}
	probes := map[string]string{}
	for tries := 0; len(probes) < len(nodes) && tries < 1000*len(nodes); tries++ {
		key := c.probe()
		node, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			break // slots without a server; reported already
		}
		probes[node.Options().Addr] = key
	}
	var serves *redis.Client
	var last error
	for _, node := range nodes {
		addr := node.Options().Addr
		if err := c.server(ctx, node, addr, probes[addr]); err != nil {
			c.find("server", addr, LevelFailure, "it does not answer: %v", err)
			last = err
			continue
		}
		serves = cmp.Or(serves, node)
	}
	if serves == nil {
		return last
	}
	c.clusterState(ctx, serves)
	return nil
}

// clusterState checks that the cluster serves all of its slots.
func (c *checker) clusterState(ctx context.Context, node *redis.Client) {
	text, err := node.ClusterInfo(ctx).Result()
	info := parseInfo(text)
	switch {
	case err != nil:
		c.find("topology", "", LevelNote, "the state of the cluster is not known: %v", err)
	case info["cluster_state"] != "ok":
		c.find("topology", "", LevelFailure, "the state of the cluster is %s; %s of %d slots are assigned",
			info["cluster_state"], info["cluster_slots_assigned"], names.Slots)
	default:
		c.find("topology", "", LevelOK, "a cluster of %s masters, all slots served", info["cluster_size"])
	}
}

// server checks one server. key is a key of that server, or empty.
func (c *checker) server(ctx context.Context, node *redis.Client, addr, key string) error {
	ctx, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	s := Server{Addr: addr}
	if err := s.meet(ctx, node); err != nil {
		return err
	}
	info, err := node.Info(ctx).Result()
	if err != nil {
		c.find("server", s.Addr, LevelNote, "INFO is denied, so version, role, memory and persistence are not known: %v", err)
	} else {
		c.describe(&s, parseInfo(info))
	}
	c.got.Servers = append(c.got.Servers, s)
	if key != "" && s.Role != "slave" && s.Role != RoleSentinel {
		c.rights(ctx, s.Addr, key)
	}
	return nil
}

// meet measures the round trip to the server and its clock, and asks for the
// user and the address.
func (s *Server) meet(ctx context.Context, node *redis.Client) error {
	for range 5 {
		sent := time.Now()
		now, err := node.Time(ctx).Result()
		took := time.Since(sent)
		if err != nil {
			// TIME may be denied; then the server has answered all the same.
			if perr := node.Ping(ctx).Err(); perr != nil && run.Classify(perr) != run.Permanent ||
				run.IsCode(err, "NOAUTH") || run.IsCode(err, "WRONGPASS") {
				return err
			}
			took = time.Since(sent)
		} else if s.RoundTrip == 0 || took < s.RoundTrip {
			s.Clock = now.Sub(sent.Add(took / 2))
		}
		if s.RoundTrip == 0 || took < s.RoundTrip {
			s.RoundTrip = took
		}
	}
	// Both may be denied; then the fields stay as they are.
	s.User, _ = node.ACLWhoAmI(ctx).Result()
	if client, err := node.ClientInfo(ctx).Result(); err == nil && client.LAddr != "" {
		s.Addr = client.LAddr
	}
	return nil
}

// parseInfo reads the fields of an INFO text.
func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
