package redistest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestBubbleTTL(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		require.NoError(t, env.Redis.Set(ctx, "k", "v", 30*time.Second).Err())
		env.Advance(30*time.Second - 1)
		require.EqualValues(t, 1, env.Redis.Exists(ctx, "k").Val())
		env.Advance(1)
		require.EqualValues(t, 0, env.Redis.Exists(ctx, "k").Val())
	})
}

func TestBubbleTimeInLua(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		now := func() int64 {
			n, err := env.Redis.Eval(ctx, `local t = redis.call('time'); return t[1]*1000 + math.floor(t[2]/1000)`, nil).Int64()
			require.NoError(t, err)
			require.Equal(t, time.Now().UnixMilli(), n)
			return n
		}
		before := now()
		env.Advance(1234 * time.Millisecond)
		require.EqualValues(t, 1234, now()-before)
	})
}

func TestBubblePubSub(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
			ctx := t.Context()
			sub := env.Client(func(o *redis.Options) { o.Protocol = protocol }).Subscribe(ctx, "ch")
			defer sub.Close()
			_, err := sub.Receive(ctx)
			require.NoError(t, err)
			start := time.Now()
			time.AfterFunc(7*time.Second, func() { env.Redis.Publish(context.Background(), "ch", "hello") })
			m := <-sub.Channel()
			assert.Equal(t, "hello", m.Payload)
			assert.Equal(t, 7*time.Second, time.Since(start))
		})
	}
}

func TestBubbleHourIsShort(t *testing.T) {
	start := time.Now()
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		seen := 0
		env.OnCommand(func(args []string) {
			if args[0] == "pexpire" {
				seen++
			}
		})
		env.Redis.Set(ctx, "k", "v", 30*time.Second)
		for range 360 {
			time.Sleep(10 * time.Second)
			require.True(t, env.Redis.PExpire(ctx, "k", 30*time.Second).Val())
		}
		assert.EqualValues(t, 360, env.Commands("PEXPIRE"))
		assert.EqualValues(t, 361, env.Commands(""))
		assert.Equal(t, 360, seen)
	})
	assert.Less(t, time.Since(start), time.Second)
}

func TestBubblePartition(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		a := env.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		b := env.Client()
		sub := b.Subscribe(ctx, "ch")
		defer sub.Close()
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
		require.NoError(t, a.Set(ctx, "k", "a", 0).Err())

		env.Partition(a)
		start := time.Now()
		require.Error(t, a.Set(ctx, "k", "lost", 0).Err())
		require.Equal(t, 5*time.Second, time.Since(start), "ReadTimeout: silence, not an error")
		require.Equal(t, "a", b.Get(ctx, "k").Val(), "the others work")
		env.Heal(a)
		require.Equal(t, "a", a.Get(ctx, "k").Val())

		env.Partition()
		c := env.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		timeout, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.Error(t, c.Set(timeout, "k", "lost", 0).Err())
		env.Mini.Publish("ch", "lost") // must not block the server
		synctest.Wait()
		env.Heal()
		env.Mini.Publish("ch", "found")
		m, err := sub.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "found", m.Payload, "the connection has survived")
		require.Equal(t, "a", c.Get(ctx, "k").Val())
	})
}

func TestBubblePartitionLeftOpen(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		env.Redis.Ping(t.Context())
		env.Partition()
	})
}

func TestBubbleFaults(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		ctx := t.Context()
		c := env.Client(func(o *redis.Options) { o.MaxRetries = -1 })
		link := env.Link(c)
		for act, runs := range map[redistest.Act]string{
			redistest.LoseRST: "1", redistest.LoseFIN: "1", redistest.Swallow: "1",
			redistest.Drop: "0", redistest.RefuseRST: "0",
		} {
			require.NoError(t, env.Mini.Set("n", "0"))
			link.OnNext(1, "incr", act)
			require.Error(t, c.Incr(ctx, "n").Err(), act)
			require.EqualValues(t, 1, link.Count(act), act)
			require.Equal(t, runs, env.Redis.Get(ctx, "n").Val(), act)
		}

		// A reply that takes ten minutes, and a command that does.
		patient := env.Client(func(o *redis.Options) { o.ReadTimeout = -1 })
		link = env.Link(patient)
		link.HoldFor(10 * time.Minute)
		for _, act := range []redistest.Act{redistest.Hold, redistest.Late} {
			require.NoError(t, env.Mini.Set("n", "0"))
			link.OnNext(1, "incr", act)
			start := time.Now()
			go func() {
				time.Sleep(time.Minute)
				n := env.Redis.Get(context.Background(), "n").Val()
				assert.Equal(t, map[redistest.Act]string{redistest.Hold: "1", redistest.Late: "0"}[act], n)
			}()
			require.EqualValues(t, 1, patient.Incr(ctx, "n").Val())
			require.Equal(t, 10*time.Minute, time.Since(start))
		}
	})
}
