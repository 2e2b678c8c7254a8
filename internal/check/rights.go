package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
	"github.com/latchkey-go/latchkey/pubsub"
)

// checkedKeys are keys of each kind that scripts use, and what does not work
// without them.
var checkedKeys = []struct {
	kind string // of key
	use  string
	key  func(key string) string
	bad  Level
}{
	{"hash", "locks", func(k string) string { return k }, LevelFailure},
	{"string", "semaphores and latches", func(k string) string { return k }, LevelFailure},
	{"string", "fenced locks", names.Token, LevelWarning},
	{"string", "labels", func(k string) string { return names.Label(k, "check:1") }, LevelWarning},
	{"list", "fair locks", func(k string) string { return names.Prefixed("redisson_lock_queue", k) }, LevelWarning},
	{"zset", "fair locks", func(k string) string { return names.Prefixed("redisson_lock_timeout", k) }, LevelWarning},
	{"hash", "fair locks", func(k string) string { return names.Prefixed("latchkey_queue", k) }, LevelWarning},
	{"zset", "locks that many wait for", func(k string) string { return names.Prefixed("latchkey_next", k) }, LevelWarning},
	{"string", "multi-locks on a group", func(k string) string { return names.Ours("latchkey_group", k) + ":check:1:set" }, LevelWarning},
	{"string", "read-write locks", func(k string) string { return names.Suffixed(k, "check:1") + ":rwlock_timeout:1" }, LevelWarning},
	{"string", "read-write locks", func(k string) string { return names.Ours("latchkey_writer", k) }, LevelWarning},
	{"zset", "permits with leases", func(k string) string { return names.Suffixed(k, "timeout") }, LevelWarning},
	{"string", "semaphores and latches", func(k string) string { return names.Ours("latchkey_claim", k) + ":check:1" }, LevelWarning},
	{"string", "latches", func(k string) string { return names.Ours("latchkey_ended", k) }, LevelWarning},
}

// rights tries what the scripts do, on side keys of key.
func (c *checker) rights(ctx context.Context, server, key string) {
	well := true
	for _, k := range checkedKeys {
		name := k.key(key)
		args := append(make([]any, run.Head, run.Head+2), name, k.kind)
		reply, err := c.engine.Eval(ctx, run.Options{Once: true}, lua.InspectCheck, 1, args)
		var refusals []string
		switch {
		case err != nil:
			refusals = []string{err.Error()}
		default:
			for _, r := range reply.Any {
				refusals = append(refusals, fmt.Sprint(r))
			}
		}
		if len(refusals) > 0 {
			well = false
			c.find("rights", server, k.bad, "%s do not work, a %s at %q: %s", k.use, k.kind, name, strings.Join(refusals, "; "))
		}
	}
	if well {
		c.find("rights", server, LevelOK, "all commands and keys")
	}
}

// pubsub tries the wake-ups, in the modes that the client uses.
func (c *checker) pubsub(ctx context.Context, key string) {
	e := c.engine
	plain, sharded := true, true
	switch c.mode(ctx) {
	case pubsub.Off:
		c.find("pubsub", "", LevelNote, "the client polls, because it was told to")
		return
	case pubsub.Plain:
		sharded = false
	case pubsub.Sharded:
		plain = false
	}
	well := true
	for _, ch := range []string{
		names.Prefixed("redisson_lock__channel", key), names.Prefixed("redisson_rwlock", key), names.Prefixed("redisson_sc", key),
		e.LatchChannel(key),
	} {
		if plain {
			well = c.heard(ctx, ch, e.Redis().Subscribe, e.Redis().Publish) && well
		}
		if sharded {
			well = c.heard(ctx, ch, e.Redis().SSubscribe, e.Redis().SPublish) && well
		}
	}
	if well {
		c.find("pubsub", "", LevelOK, "waiters are woken")
	}
}

// mode returns the client's mode of pub/sub, or Auto if that cannot be
// determined.
func (c *checker) mode(ctx context.Context) pubsub.Mode {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	return c.engine.WakeUps(ctx)
}

// hearWithin is how long a message may take to arrive.
const hearWithin = 2 * time.Second

// heard reports whether a message on a Redis channel arrives.
func (c *checker) heard(ctx context.Context, ch string, subscribe func(context.Context, ...string) *redis.PubSub,
	publish func(context.Context, string, any) *redis.IntCmd,
) bool {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	ps := subscribe(ctx, ch)
	defer ps.Close()
	timeout := hearWithin
	if pubsub.NoDeadlines(c.engine.Redis()) {
		timeout = -1
	}
	defer context.AfterFunc(ctx, func() { _ = ps.Close() })()
	if _, err := ps.ReceiveTimeout(ctx, timeout); err != nil {
		c.find("pubsub", "", LevelWarning, "who waits cannot listen to %q, and asks again and again: %v", ch, err)
		return false
	}
	if err := publish(ctx, ch, "check").Err(); err != nil {
		c.find("pubsub", "", LevelWarning, "who unlocks cannot tell %q, and waiters learn of it up to %v late: %v", ch, c.engine.Recheck(), err)
		return false
	}
	for {
		msg, err := ps.ReceiveTimeout(ctx, timeout)
		if _, ok := msg.(*redis.Message); ok {
			return true
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
				err = errors.New("nothing arrives")
			}
			c.find("pubsub", "", LevelWarning, "a message on %q is lost, and waiters learn of releases up to %v late: %v", ch, c.engine.Recheck(), err)
			return false
		}
	}
}
