package pubsub

import (
	"errors"
	"fmt"
	"time"
)

// Mode says which kind of pub/sub carries the messages.
type Mode int

const (
	// Plain uses SUBSCRIBE on one connection.
	Plain Mode = iota
	// Sharded uses SSUBSCRIBE, in a cluster on one connection per shard in use.
	Sharded
	// Both uses Plain and Sharded together, for a fleet that publishes both ways.
	Both
	// Off opens no connection: every subscription is Denied with ErrPolling.
	Off
	// Auto is Sharded in a cluster whose masters all have sharded pub/sub, Both
	// where some have it or they may not tell, else Plain. The masters are asked
	// when it first matters; until one has answered, subscriptions are Pending.
	Auto
)

// Config is the configuration of a Notifier. The zero value is usable.
type Config struct {
	// Mode is the kind of pub/sub, Plain by default.
	Mode Mode

	// Heartbeat is how long a connection may be silent before a PING is sent on
	// it; after half of such a period without any frame it is replaced. It bounds
	// a single write too, and three times of it, but at least a second, a dial with
	// its handshake. Default 2 s.
	Heartbeat time.Duration

	// Linger is how long a channel stays subscribed after its last Subscription
	// was closed. Default 100 ms, negative for not at all.
	Linger time.Duration

	// IdleClose is how long a connection without channels stays open. Default
	// 10 s, negative for not at all.
	IdleClose time.Duration

	// OnDenied is called once per channel name and reason when Redis refuses a
	// subscription. It runs on a goroutine of the notifier, without locks; Close
	// waits for it, so it must not call Close.
	OnDenied func(channel string, err error)

	// OnResubscribe is called when a lost connection has been replaced, with the
	// number of channels that were on it; several lost at a time may be reported
	// as one, and a slot move counts as a loss. It runs as OnDenied does.
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

// dialBound is how long a dial may take, so that a short heartbeat does not make
// a far server unreachable.
func (c Config) dialBound() time.Duration { return max(3*c.Heartbeat, time.Second) }

// answerBound is how long the answer to a PING may take. A server that is frozen,
// rather than dead, is missed by nothing else, and there may be another primary
// soon.
func (c Config) answerBound() time.Duration { return c.Heartbeat / 2 }

// Stats is a snapshot of a Notifier.
type Stats struct {
	// Channels counts the channel names that are wanted or linger.
	Channels int
	// Connections counts the open subscriber connections.
	Connections int
	// Resubscribes counts the connections that were lost and replaced.
	Resubscribes uint64
	// Denied counts the channel names that are refused now.
	Denied int
	// LastFrame is when Redis last sent anything, zero if never.
	LastFrame time.Time
}

var (
	// ErrDenied is matched by the error of every denied subscription.
	ErrDenied = errors.New("pubsub: subscription denied")
	// ErrPolling is the reason in Mode Off, and for clients that have no
	// subscriber connection (redis.Ring).
	ErrPolling = errors.New("pubsub: switched off")
	// ErrClosed is the reason after Notifier.Close.
	ErrClosed = errors.New("pubsub: notifier closed")
)

// DeniedError says why a subscription is Denied. It matches ErrDenied and
// unwraps to the reason: the server's reply, ErrPolling or ErrClosed.
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
