package bench

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A counter is a hook that counts the commands of a client, those that set up its
// connections aside.
type counter struct{ sent atomic.Uint64 }

// DialHook returns next.
func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts one command.
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts the commands of a pipeline.
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func (c *counter) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		switch cmd.Name() {
		case "hello", "auth", "select", "client", "readonly":
		default:
			c.sent.Add(1)
		}
	}
}
