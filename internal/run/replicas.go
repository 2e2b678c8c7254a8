package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Acks says how many replicas must have a grant, and how long they may take.
type Acks struct {
	Min      int
	Timeout  time.Duration
	Renewals bool // they must have renewals as well
	Releases bool // and releases
	Disk     bool // and must have written to disk what they have, the primary too
}

// On reports whether anybody asks.
func (a Acks) On() bool { return a.Min > 0 || a.Disk }

// command returns the command that waits for the replicas.
func (a Acks) command() []any {
	if a.Disk {
		return []any{"waitaof", 1, a.Min, a.Timeout.Milliseconds()}
	}
	return []any{"wait", a.Min, a.Timeout.Milliseconds()}
}

// Replicas are the reply to the WAIT behind a script, on the same connection, as only
// that one covers what the script wrote. Redis counts all that its master had written by
// then, so a script that comes again and finds its work done is covered too.
type Replicas struct {
	got   int   // how many have it
	local int   // 1: the primary has it on disk; for AckDisk
	err   error // of WAIT
}

// Confirmed returns where the replicas' confirmation goes of a request, nil unless on is set.
func Confirmed(on bool) *Replicas {
	if !on {
		return nil
	}
	return new(Replicas)
}

// another returns a new one where r is one.
func (r *Replicas) another() *Replicas { return Confirmed(r != nil) }

// Short says that too few replicas have the grant; nil when it is well.
func (rn *Runner) Short(a *Replicas) error {
	want := rn.cfg.Acks
	if a == nil || a.err == nil && a.got >= want.Min && (a.local > 0 || !want.Disk) {
		return nil
	}
	var reply redis.Error
	switch {
	case errors.As(a.err, &reply) && want.Disk:
		return both{ErrNotReplicated, fmt.Errorf("AckDisk needs WAITAOF, of Redis 7.2, and it is refused: %w", a.err)}
	case errors.As(a.err, &reply):
		return both{ErrNotReplicated, fmt.Errorf("replicas cannot be counted, WAIT is refused: %w", a.err)}
	case a.err != nil:
		return both{ErrNotReplicated, a.err}
	case want.Disk:
		return both{ErrNotReplicated, fmt.Errorf("%d of 1 primary and %d of %d replicas have it on disk within %v",
			a.local, a.got, want.Min, want.Timeout)}
	}
	return both{ErrNotReplicated, fmt.Errorf("%d of %d replicas have confirmed within %v", a.got, want.Min, want.Timeout)}
}

// sendAcked sends cmd and WAIT, and returns the answer to the latter.
func (rn *Runner) sendAcked(ctx context.Context, cmd redis.Cmder) (a Replicas) {
	pipe, err := rn.ackPipe(ctx, cmd)
	if err != nil {
		cmd.SetErr(err)
		return Replicas{err: err}
	}
	n := rn.execAcked(ctx, pipe, cmd)
	if c, ok := rn.rdb.(*redis.ClusterClient); ok {
		if IsCode(cmd.Err(), "ASK") { // a slot on the move, maybe for long: what is asked for is there
			n = rn.sendAsked(ctx, c, cmd)
		}
		if IsCode(cmd.Err(), "MOVED") || IsCode(cmd.Err(), "ASK") {
			c.ReloadState(context.WithoutCancel(ctx)) // the caller asks again
		}
	}
	if !rn.cfg.Acks.Disk {
		a.got, a.err = n.Int()
		return a
	}
	have, err := n.Int64Slice()
	switch {
	case err != nil:
		a.err = err
	case len(have) != 2:
		a.err = fmt.Errorf("WAITAOF answered %v, which has no meaning", have)
	default:
		a.local, a.got = int(have[0]), int(have[1])
	}
	return a
}

// execAcked sends cmd and WAIT, behind what is in pipe.
func (rn *Runner) execAcked(ctx context.Context, pipe redis.Pipeliner, cmd redis.Cmder) *redis.Cmd {
	_ = pipe.Process(ctx, cmd) // go-redis sends the pipeline once, since cmd says NoRetry
	n := pipe.Do(ctx, rn.cfg.Acks.command()...)
	_, _ = pipe.Exec(ctx)
	return n
}

// sendAsked sends cmd and WAIT to the node that an ASK names. A ClusterClient may
// know it, but does not say: it has a connection of its own for this.
func (rn *Runner) sendAsked(ctx context.Context, rdb *redis.ClusterClient, cmd redis.Cmder) *redis.Cmd {
	ask := cmd.Err().Error()
	key, _ := cmd.Args()[Head].(string)
	owner, err := rdb.MasterForKey(ctx, key)
	if err != nil {
		return redis.NewCmdResult(nil, err)
	}
	o := *owner.Options()
	o.Addr = ask[strings.LastIndexByte(ask, ' ')+1:]
	if i := strings.LastIndexByte(o.Addr, ':'); i >= 0 { // Redis writes an IPv6 address without brackets
		o.Addr = net.JoinHostPort(strings.Trim(o.Addr[:i], "[]"), o.Addr[i+1:])
	}
	o.PoolSize, o.MinIdleConns, o.PushNotificationProcessor = 1, 0, nil
	// That of owner is written to whenever a connection of its begins; and what is to
	// be told of failovers to a connection for one request?
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	node := rdb.Options().NewClient(&o)
	defer func() { _ = node.Close() }()
	pipe := node.Pipeline()
	_ = pipe.Do(ctx, "asking")
	cmd.SetErr(nil)
	return rn.execAcked(ctx, pipe, cmd)
}

// ackPipe returns a pipeline to the server of the first key of cmd. (That of a
// ClusterClient would send WAIT to any node.)
func (rn *Runner) ackPipe(ctx context.Context, cmd redis.Cmder) (redis.Pipeliner, error) {
	if rdb, ok := rn.rdb.(*redis.ClusterClient); ok {
		key, _ := cmd.Args()[Head].(string)
		node, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return node.Pipeline(), nil
	}
	return rn.rdb.Pipeline(), nil
}
