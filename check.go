package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/check"
)

// A Level is the severity of a Finding.
type Level int

// The levels of findings.
const (
	LevelOK      = Level(check.LevelOK)      // as it should be
	LevelNote    = Level(check.LevelNote)    // good to know
	LevelWarning = Level(check.LevelWarning) // works less well, or may break one day
	LevelFailure = Level(check.LevelFailure) // something does not work
)

// String returns "ok", "note", "warning" or "failure".
func (l Level) String() string {
	switch l {
	case LevelOK:
		return "ok"
	case LevelNote:
		return "note"
	case LevelWarning:
		return "warning"
	}
	return "failure"
}

// A Report is what Check has found.
type Report struct {
	Topology string // "single", "sentinel" or "cluster"
	Servers  []ServerReport
	Findings []Finding
}

// Worst returns the worst level of all findings.
func (r Report) Worst() Level {
	worst := LevelOK
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// A Finding is the result of one check.
type Finding struct {
	// Name is the subject: "version", "role", "eviction", "memory",
	// "persistence", "rights", "client", "pubsub", "clock", "topology", or
	// "server" if a server does not answer the questions.
	Name   string
	Server string // address; empty if the finding is about all servers
	Level  Level
	Text   string // one sentence, for people
}

// A ServerReport is a server's description of itself. Fields that the server
// does not report are zero.
type ServerReport struct {
	Addr       string
	Product    string // "redis" or "valkey"
	Version    string
	Role       string // "master", "slave" or "sentinel"
	User       string // the user of this client's connection
	Replicas   int
	MaxMemory  int64 // bytes; 0 for no limit
	UsedMemory int64 // bytes
	Policy     string
	Persistent bool          // there is an append-only file
	RoundTrip  time.Duration // the shortest of a few
	Clock      time.Duration // how far the server's clock is ahead of ours, estimated
}

// Check inspects the Redis servers and tries out what the primitives need of
// them: version, role, memory policy, persistence, rights to commands, keys and
// Redis channels, wake-ups, clocks, and the options of the go-redis client. In
// a Redis Cluster it inspects each master. Check is for setting up and for
// finding faults; a client works without it.
//
// Check writes keys under names of its own with the client's key prefix. Each
// of them expires within a second, so nothing stays behind. It takes some
// dozens of round trips. It returns an error if no server could be asked.
// Faults of servers that answer, and the masters of a cluster that do not
// answer, are in the Report.
func (c *Client) Check(ctx context.Context) (Report, error) {
	got, err := check.Run(ctx, c)
	r := Report{Topology: got.Topology}
	for _, s := range got.Servers {
		r.Servers = append(r.Servers, serverReport(s))
	}
	for _, f := range got.Findings {
		r.Findings = append(r.Findings, Finding{f.Name, f.Server, Level(f.Level), f.Text})
	}
	return r, err
}

func serverReport(s check.Server) ServerReport {
	return ServerReport{
		Addr: s.Addr, Product: s.Product, Version: s.Version, Role: s.Role, User: s.User, Replicas: s.Replicas,
		MaxMemory: s.MaxMemory, UsedMemory: s.UsedMemory, Policy: s.Policy, Persistent: s.Persistent,
		RoundTrip: s.RoundTrip, Clock: s.Clock,
	}
}
