package topology

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// flooded returns all kinds of object whose waiters wait for messages.
func flooded() map[string]func(context.Context, *latchkey.Client, string) (taken, error) {
	all := map[string]func(context.Context, *latchkey.Client, string) (taken, error){
		"read lock": byLock(func(c *latchkey.Client, name string) latchkey.Locker { return rwlock.New(c, name).ReadLock() }),
		"group":     byLock(func(c *latchkey.Client, name string) latchkey.Locker { return multilock.NewGroup(c, name, "x", "y") }),
		"latch": func(ctx context.Context, c *latchkey.Client, name string) (taken, error) {
			err := countdownlatch.New(c, name).Await(ctx)
			return taken{func(context.Context) error { return nil }, nil}, err
		},
	}
	for kind, take := range objects {
		if kind != "spinning" { // it listens to nothing
			all[kind] = take
		}
	}
	return all
}

// Anybody who may publish may wake waiters as often as they like. The waiters
// ask, one after another, and nobody gets anything that was not released.
func TestFlood(t *testing.T) {
	const waiters = 5
	messages := redistest.Many(100_000, 20_000)
	s := redistest.Start(t)
	rdb := s.Client(t)
	holder, one, other := newClient(t, s.Client(t)), newClient(t, s.Client(t)), newClient(t, s.Client(t))
	held := map[string]taken{}
	got := map[string]chan waiter{}
	kinds := flooded()
	for kind, take := range kinds {
		switch kind {
		case "latch":
			l := countdownlatch.New(holder, kind)
			_, err := l.TrySetCount(t.Context(), 1)
			require.NoError(t, err)
			held[kind] = taken{l.CountDown, nil}
		case "read lock": // kept out by a writer
			h, err := rwlock.New(holder, kind).WriteLock().Lock(t.Context())
			require.NoError(t, err)
			held[kind] = taken{h.Unlock, h.Lost()}
		default:
			first, err := take(t.Context(), holder, kind)
			require.NoError(t, err)
			held[kind] = first
		}
		got[kind] = make(chan waiter, 2*waiters)
		for _, c := range []*latchkey.Client{one, other} {
			for range waiters {
				go func() {
					g, err := take(t.Context(), c, kind)
					got[kind] <- waiter{g, err, time.Now()}
				}()
			}
		}
	}
	waiting(t, one, waiters*len(kinds))
	waiting(t, other, waiters*len(kinds))
	time.Sleep(500 * time.Millisecond) // until nothing but a message makes them ask

	channels := rdb.PubSubChannels(t.Context(), "*").Val()
	kindsHeard := map[string]bool{}
	for _, ch := range channels {
		for kind := range kinds {
			if strings.Contains(ch, kind) {
				kindsHeard[kind] = true
			}
		}
	}
	require.Len(t, kindsHeard, len(kinds), "%q", channels)

	numbers := rdb.LRange(t.Context(), "redisson_lock_queue:{fair}", 0, -1).Val()
	require.Len(t, numbers, 2*waiters)
	forge := func() string {
		number := numbers[rand.IntN(len(numbers))]
		number = number[strings.LastIndexByte(number, ':')+1:]
		switch rand.IntN(7) {
		case 0:
			return "0"
		case 1:
			return "1"
		case 2:
			return fmt.Sprintf("+%s 15000 %d", number, time.Now().UnixMilli())
		case 3:
			return fmt.Sprintf("+%s 15000 %d %040x", number, time.Now().UnixMilli(), rand.Uint64())
		case 4:
			return fmt.Sprintf("+%d 9223372036854775807", rand.Uint64())
		case 5:
			return numbers[rand.IntN(len(numbers))]
		}
		return strings.Repeat("\x00\xff+ ", rand.IntN(50))
	}
	before, start := s.CommandStats(t)["evalsha"], time.Now()
	for range messages / 1000 {
		pipe := rdb.Pipeline()
		for range 1000 {
			pipe.Publish(t.Context(), channels[rand.IntN(len(channels))], forge())
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
	took := time.Since(start)
	asked := s.CommandStats(t)["evalsha"] - before
	t.Logf("%d messages on %d Redis channels in %v: %d questions", messages, len(channels), took, asked)
	require.Less(t, asked, int64(messages/2), "a line asks once at a time, whatever comes meanwhile")
	for kind := range kinds {
		require.Empty(t, got[kind], kind)
	}

	// Nothing is stuck: everything goes round as before.
	for kind, h := range held {
		require.NoError(t, h.release(t.Context()), kind)
	}
	for kind := range kinds {
		for i := range 2 * waiters {
			w := <-got[kind]
			require.NoError(t, w.err, "%s %d", kind, i)
			require.NoError(t, w.got.release(t.Context()), kind)
		}
	}
	for _, c := range []*latchkey.Client{holder, one, other} {
		require.Zero(t, c.Stats().Losses)
		require.Zero(t, c.Stats().Waiting)
	}
}
