package pubsub

import (
	"errors"
	"fmt"
	"time"
)

// Mode selects the kind of pub/sub that carries the messages.
type Mode int

const (
	// Plain uses SUBSCRIBE on one connection.
	Plain Mode = iota
	// Sharded uses SSUBSCRIBE; in a cluster, on one connection for each shard
	// in use.
	Sharded
	// Both uses Plain and Sharded together, for fleets that publish both ways.
	Both
	// Off opens no connection: every subscription is Denied with ErrPolling.
	Off
	// Auto is Sharded in a cluster whose masters all support sharded pub/sub.
	// It is Both in a cluster where only some support it, or where the user may
	// not ask. It is Plain everywhere else. The masters are asked when the mode
	// is first needed; until one has answered, subscriptions are Pending.
	Auto
)

// Config is the configuration of a Notifier. The zero value is usable.
type Config struct {
	// Mode is the kind of pub/sub, Plain by default.
	Mode Mode

	// Heartbeat is how long a connection may be silent before a PING is sent on
	// it. If no frame arrives within half of that time again, the connection is
	// replaced. Heartbeat also bounds a single write. Three Heartbeats, or one
	// second if that is more, bound a dial with its handshake. Default 2 s.
	Heartbeat time.Duration

	// Linger is how long a channel stays subscribed after its last Subscription
	// was closed. Default 100 ms; negative means not at all.
	Linger time.Duration

	// IdleClose is how long a connection without channels stays open. Default
	// 10 s; negative means not at all.
	IdleClose time.Duration

	// OnDenied is called once for each channel name and reason when Redis
	// refuses a subscription. It runs on a goroutine of the notifier, with no
	// lock held. Close waits for it, so it must not call Close.
	OnDenied func(channel string, err error)

	// OnResubscribe is called when a lost connection has been replaced.
	// channels is the number of channels that were on it. Several losses at a
	// time may be reported as one, and a slot move counts as a loss.
	// OnResubscribe runs as OnDenied does.
	OnResubscribe func(channels int)
}

func (c Config) withDefaults() Config {
	fill := func(d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			*d = 0
		}
	}
	fill(&c.Linger, 100*time.Millisecond)
	fill(&c.IdleClose, 10*time.Second)
	if c.Heartbeat <= 0 {
		c.Heartbeat = 2 * time.Second
	}
	return c
}

// dialBound returns how long a dial may take. Its minimum keeps distant servers
// reachable with a short heartbeat.
func (c Config) dialBound() time.Duration { return max(3*c.Heartbeat, time.Second) }

// answerBound returns how long the answer to a PING may take. Only a missing
// PONG reveals a frozen server, and another server may soon be the primary.
func (c Config) answerBound() time.Duration { return c.Heartbeat / 2 }

// Stats is a snapshot of a Notifier.
type Stats struct {
	// Channels is the number of channel names that are in use or linger.
	Channels int
	// Connections is the number of open subscriber connections.
	Connections int
	// Resubscribes is the number of connections that were lost and replaced.
	Resubscribes uint64
	// Denied is the number of channel names that are refused at present.
	Denied int
	// LastFrame is when Redis last sent anything; zero if never.
	LastFrame time.Time
}

var (
	// ErrDenied is matched by the error of every denied subscription.
	ErrDenied = errors.New("pubsub: subscription denied")
	// ErrPolling is the reason in Mode Off, and for clients without a
	// subscriber connection (redis.Ring).
	ErrPolling = errors.New("pubsub: switched off")
	// ErrClosed is the reason after Notifier.Close.
	ErrClosed = errors.New("pubsub: notifier closed")
)

// DeniedError is the reason why a subscription is Denied. It matches ErrDenied
// and unwraps to the reason: the server's reply, ErrPolling or ErrClosed.
type DeniedError struct {
	Channel string
	Err     error
}

// Error implements error.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("pubsub: subscription to %q denied: %v", e.Channel, e.Err)
}

// Unwrap returns the reason.
func (e *DeniedError) Unwrap() error { return e.Err }

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }
