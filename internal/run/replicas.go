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

// Acks sets how many replicas must confirm a grant, and how long that may take.
type Acks struct {
	Min      int
	Timeout  time.Duration
	Renewals bool // renewals must be confirmed too
	Releases bool // releases must be confirmed too
	Disk     bool // the primary and the replicas must have the change on disk
}

// On reports whether any confirmation is required.
func (a Acks) On() bool { return a.Min > 0 || a.Disk }

// command returns the command that waits for the replicas.
func (a Acks) command() []any {
	if a.Disk {
		return []any{"waitaof", 1, a.Min, a.Timeout.Milliseconds()}
	}
	return []any{"wait", a.Min, a.Timeout.Milliseconds()}
}

// Replicas are the reply to a WAIT that follows a script on the same
// connection. Only there does WAIT cover what the script wrote. Redis counts
// everything that its master had written by then, so a repeated script that
// finds its work done is covered too.
type Replicas struct {
	got   int   // number of replicas that have it
	local int   // 1 if the primary has it on disk; for AckDisk
	err   error // error of WAIT
}

// Confirmed returns a Replicas to receive the confirmation of a request if on
// is set, and nil otherwise.
func Confirmed(on bool) *Replicas {
	if !on {
		return nil
	}
	return new(Replicas)
}

// another returns a new Replicas, or nil if r is nil.
func (r *Replicas) another() *Replicas { return Confirmed(r != nil) }

// Short returns an error if too few replicas have confirmed, and nil otherwise.
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

// sendAcked sends cmd and WAIT, and returns the reply to WAIT.
func (rn *Runner) sendAcked(ctx context.Context, cmd redis.Cmder) (a Replicas) {
	pipe, err := rn.ackPipe(ctx, cmd)
	if err != nil {
		cmd.SetErr(err)
		return Replicas{err: err}
	}
	n := rn.execAcked(ctx, pipe, cmd)
	if c, ok := rn.rdb.(*redis.ClusterClient); ok {
		if IsCode(cmd.Err(), "ASK") { // the slot is being moved, perhaps for long; its keys are at the node that ASK names
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

// execAcked sends cmd and WAIT, after the commands in pipe.
func (rn *Runner) execAcked(ctx context.Context, pipe redis.Pipeliner, cmd redis.Cmder) *redis.Cmd {
	_ = pipe.Process(ctx, cmd) // go-redis sends the pipeline only once, because of cmd's NoRetry
	n := pipe.Do(ctx, rn.cfg.Acks.command()...)
	_, _ = pipe.Exec(ctx)
	return n
}

// sendAsked sends cmd and WAIT to the node that an ASK names. A ClusterClient
// does not give access to that node, so sendAsked makes a connection of its
// own.
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
	// The owner's configuration is written to when one of its connections
	// starts. A connection for one request needs no notifications of failovers.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	node := rdb.Options().NewClient(&o)
	defer func() { _ = node.Close() }()
	pipe := node.Pipeline()
	_ = pipe.Do(ctx, "asking")
	cmd.SetErr(nil)
	return rn.execAcked(ctx, pipe, cmd)
}

// ackPipe returns a pipeline to the server of the first key of cmd. (A pipeline
// of a ClusterClient would send WAIT to any node.)
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
