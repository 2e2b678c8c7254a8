package flight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/flight"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// machineConfig names the variable that makes of this program a process of the tests.
const machineConfig = "LATCHKEY_FLIGHT_MACHINE"

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

// machineMain is the program of a machine.
func machineMain(text string) {
	var m machine
	err := json.Unmarshal([]byte(text), &m)
	if err == nil {
		err = m.work(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// start starts the process of a machine, and returns what waits for its end.
func (m machine) start(t *testing.T) (cmd *exec.Cmd, wait func() error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), machineConfig+"="+string(text))
	var out strings.Builder
	cmd.Stderr = &out
	require.NoError(t, cmd.Start())
	wait = sync.OnceValue(func() error {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, out.String())
		}
		return nil
	})
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = wait() })
	return cmd, wait
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
			first, firstEnds := m.start(t)
			redistest.Until(t, "it to run", func() bool { return rdb.LLen(t.Context(), "ran").Val() == 1 })
			var others []func() error
			for range 3 {
				_, wait := m.start(t)
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
