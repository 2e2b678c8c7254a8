package flight_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/flight"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A machine is a process of many callers, which notes each execution in the list ran.
type machine struct {
	Addr  string
	Calls int
	Hangs bool // the first execution does not end
}

// lease is that of a machine.
const lease = time.Second

func (m machine) work(ctx context.Context) error {
	rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: m.Addr, ContextTimeoutEnabled: true}))
	defer rdb.Close()
	notes := redis.NewClient(&redis.Options{Addr: m.Addr})
	defer notes.Close()
	c := latchkey.New(rdb, latchkey.WithWatchdogTimeout(lease))
	defer c.Close()
	errs := make([]error, m.Calls)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() {
			v, _, err := flight.Do(ctx, c, "report", func(ctx context.Context) (string, error) {
				n, err := notes.RPush(ctx, "ran", os.Getpid()).Result()
				if err != nil {
					return "", err
				}
				if m.Hangs && n == 1 {
					<-ctx.Done()
				}
				time.Sleep(100 * time.Millisecond)
				return fmt.Sprint("report ", n), nil
			}, flight.TTL(time.Hour))
			switch {
			case err != nil:
				errs[i] = err
			default:
				errs[i] = notes.SAdd(ctx, "values", v).Err()
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}

// A thousand calls in four processes are one execution. If its process is killed in the
// middle, they are two, and those who live get the value of the second.
func TestProcesses(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("Kill=%t", kill), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := s.Client(t)
			m := machine{Addr: s.Addr, Calls: redistest.Many(250, 50), Hangs: kill}
			first, firstEnds := redistest.StartSelf(t, m)
			redistest.Until(t, "it to run", func() bool { return rdb.LLen(t.Context(), "ran").Val() == 1 })
			var others []func() error
			for range 3 {
				_, wait := redistest.StartSelf(t, m)
				others = append(others, wait)
			}
			want := "report 1"
			if kill {
				redistest.Until(t, "the others to wait", func() bool {
					const channel = "redisson_lock__channel:{report}:latchkey_flight"
					return rdb.PubSubNumSub(t.Context(), channel).Val()[channel]+
						rdb.PubSubShardNumSub(t.Context(), channel).Val()[channel] >= 3
				})
				require.NoError(t, first.Process.Kill())
				require.Error(t, firstEnds())
				want = "report 2"
			} else {
				require.NoError(t, firstEnds())
			}
			for _, wait := range others {
				require.NoError(t, wait())
			}
			ran := int64(1)
			if kill {
				ran = 2
			}
			require.Equal(t, ran, rdb.LLen(t.Context(), "ran").Val())
			require.Equal(t, []string{want}, rdb.SMembers(t.Context(), "values").Val())
			require.ElementsMatch(t, []string{"ran", "values", "{report}:latchkey_flight_value"}, rdb.Keys(t.Context(), "*").Val())
			require.Positive(t, rdb.PTTL(t.Context(), "{report}:latchkey_flight_value").Val())
		})
	}
}
