package locktest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// AfterScripts calls f with the reply of each script that is sent through rdb
// from now on, before the sender receives it. It does not see the replies of
// pipelines.
func AfterScripts(rdb redis.UniversalClient, f func(answer any)) { rdb.AddHook(afterScripts(f)) }

type afterScripts func(answer any)

func (afterScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f afterScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(interface{ Val() any }); ok && cmd.Name() == "evalsha" {
			f(c.Val())
		}
		return err
	}
}

func (afterScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
