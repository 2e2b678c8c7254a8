package latchkey

import (
	"context"
	"time"

	"github.com/latchkey-go/latchkey/internal/check"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// A Level says how bad a Finding is.
type Level int

// The levels of findings.
const (
	LevelOK      = Level(check.LevelOK)      // as it should be
	LevelNote    = Level(check.LevelNote)    // to be known, no more
	LevelWarning = Level(check.LevelWarning) // something works less well, or may break one day
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

// A Finding is the answer to one question.
type Finding struct {
	// Name is what it is about: "version", "role", "eviction", "memory",
	// "persistence", "rights", "client", "pubsub", "clock", "topology", or "server" where
	// one does not tell.
	Name   string
	Server string // address; empty where it is about all
	Level  Level
	Text   string // one sentence, for people
}

// A ServerReport is a server as it describes itself. What it does not tell is
// zero.
type ServerReport struct {
	Addr       string
	Product    string // "redis" or "valkey"
	Version    string
	Role       string // "master", "slave" or "sentinel"
	User       string // whom the server takes us for
	Replicas   int
	MaxMemory  int64 // bytes; 0 for no limit
	UsedMemory int64 // bytes
	Policy     string
	Persistent bool          // there is an append-only file
	RoundTrip  time.Duration // the shortest of a few
	Clock      time.Duration // how far the server's clock is ahead of ours, as far as can be told
}

// Check looks at the Redis servers and tries what the primitives need of them:
// version, role, memory policy, persistence, rights to commands, keys and Redis
// channels, wake-ups, clocks, and the options of the go-redis client. In a Redis
// Cluster it looks at each master. It is for people who set things up, and for a
// command that shows what is wrong; a client works without it.
//
// It writes under names of its own with the client's key prefix, where each key
// expires within a second, and leaves nothing behind. It takes some dozens of
// round trips. An error means that no server could be asked; what is wrong with
// servers that answer, and which masters of a cluster do not, is in the Report.
func (c *Client) Check(ctx context.Context) (Report, error) {
	got, err := check.Run(ctx, engine.Of(c))
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
