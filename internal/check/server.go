package check

import (
	"strconv"
	"strings"
	"time"
)

// describe reads a server's description of itself and judges it.
func (c *checker) describe(s *Server, info map[string]string) {
	s.Product, s.Version = "redis", info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		s.Product, s.Version = "valkey", v
	}
	s.Role = info["role"]
	s.Replicas, _ = strconv.Atoi(info["connected_slaves"])
	s.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64)
	s.UsedMemory, _ = strconv.ParseInt(info["used_memory"], 10, 64)
	s.Policy = info["maxmemory_policy"]
	s.Persistent = info["aof_enabled"] == "1"

	c.version(s)
	if info["redis_mode"] == RoleSentinel || info["server_mode"] == RoleSentinel {
		s.Role = RoleSentinel
		c.find("role", s.Addr, LevelFailure, "a Sentinel, which keeps no locks but knows where the master is: connect through it by the name of the master (%s; "+
			"in Go redis.NewFailoverClient, on the command line --sentinel-master)", masters(info))
		return
	}
	c.role(s)
	c.memory(s)
	c.persistence(s, info)
	if info["cluster_enabled"] == "1" && !c.engine.InCluster() {
		c.find("topology", s.Addr, LevelFailure, "this server is a node of a Redis Cluster, and the client is for a single server")
	}
}

// RoleSentinel is the role of a Sentinel, which stores no keys.
const RoleSentinel = "sentinel"

// masters returns the names of the masters that a Sentinel watches.
func masters(info map[string]string) string {
	var names []string
	for i := 0; ; i++ {
		text, ok := info["master"+strconv.Itoa(i)]
		if !ok {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "name="), ",")
		names = append(names, strconv.Quote(name))
	}
	if len(names) == 0 {
		return "this one watches none yet"
	}
	return "this one watches " + strings.Join(names, ", ")
}

// leastMajor and leastMinor are the oldest version that works.
const leastMajor, leastMinor = 6, 2

func (c *checker) version(s *Server) {
	var number [2]int
	for i, part := range strings.SplitN(s.Version, ".", 3) {
		if i < len(number) {
			number[i], _ = strconv.Atoi(part)
		}
	}
	major, minor := number[0], number[1]
	switch {
	case s.Version == "":
		c.find("version", s.Addr, LevelNote, "the server does not tell its version")
	case s.Product == "redis" && (major < leastMajor || major == leastMajor && minor < leastMinor):
		c.find("version", s.Addr, LevelFailure, "Redis %s is too old: %d.%d is the least", s.Version, leastMajor, leastMinor)
	default:
		c.find("version", s.Addr, LevelOK, "%s %s", s.Product, s.Version)
	}
}

func (c *checker) role(s *Server) {
	switch {
	case s.Role == "slave":
		c.find("role", s.Addr, LevelFailure, "a replica: what is written there is refused; connect to its master")
	case s.Replicas > 0:
		c.find("role", s.Addr, LevelNote, "a master with %d replicas: a failover may forget a lock that was taken just before", s.Replicas)
	default:
		c.find("role", s.Addr, LevelOK, "a master without replicas")
	}
}

// nearlyFull is the fraction of the memory limit at which a warning is due.
const nearlyFull = 0.9

func (c *checker) memory(s *Server) {
	evicts := s.Policy != "noeviction" && s.Policy != ""
	switch {
	case s.MaxMemory > 0 && evicts:
		c.find("eviction", s.Addr, LevelFailure, "at its memory limit the server throws keys away (maxmemory-policy %s): locks too; noeviction is right", s.Policy)
	case evicts:
		c.find("eviction", s.Addr, LevelWarning, "there is no memory limit, but with one the server would throw keys away (maxmemory-policy %s), locks too", s.Policy)
	case s.Policy == "":
		c.find("eviction", s.Addr, LevelNote, "the server does not tell whether it throws keys away")
	default:
		c.find("eviction", s.Addr, LevelOK, "no key is thrown away (maxmemory-policy noeviction)")
	}
	switch {
	case s.MaxMemory > 0 && s.UsedMemory >= s.MaxMemory && !evicts:
		c.find("memory", s.Addr, LevelFailure, "all of the %d bytes that are allowed are in use: no lock can be taken", s.MaxMemory)
	case s.MaxMemory > 0 && float64(s.UsedMemory) > nearlyFull*float64(s.MaxMemory):
		c.find("memory", s.Addr, LevelWarning, "%d of %d bytes are in use: at the limit no lock can be taken", s.UsedMemory, s.MaxMemory)
	}
}

func (c *checker) persistence(s *Server, info map[string]string) {
	switch {
	case s.Persistent:
		c.find("persistence", s.Addr, LevelOK, "an append-only file")
	default:
		c.find("persistence", s.Addr, LevelNote, "no append-only file: a restart forgets who holds what, and lets others in")
	}
	if info["loading"] == "1" {
		c.find("persistence", s.Addr, LevelFailure, "the server is loading its data")
	}
	if st := info["aof_last_write_status"]; st != "" && st != "ok" {
		c.find("persistence", s.Addr, LevelFailure, "the last write to the append-only file failed")
	}
	if st := info["rdb_last_bgsave_status"]; st != "" && st != "ok" {
		c.find("persistence", s.Addr, LevelWarning, "the last snapshot failed: the server may refuse writes (MISCONF)")
	}
}

// The differences between clocks that are reported.
const (
	clockNote    = time.Second
	clockWarning = 10 * time.Second
)

// clocks judges how far the servers' clocks are from ours.
func (c *checker) clocks() {
	for _, s := range c.got.Servers {
		off := s.Clock.Abs()
		if off < s.RoundTrip {
			off = 0
		}
		level, remark := LevelOK, ""
		switch {
		case off >= clockWarning:
			level, remark = LevelWarning, "; latchkey lives with that, but Java's semaphores and fair locks go by their own clocks"
		case off >= clockNote:
			level = LevelNote
		}
		c.find("clock", s.Addr, level, "%v from ours, a round trip takes %v%s", off.Round(time.Millisecond), s.RoundTrip.Round(time.Microsecond), remark)
	}
}
