package once_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/once"
)

// A machine is a process that schedules a job, and notes each run in the list ran.
type machine struct {
	Addr    string
	Begin   time.Time // the first fire
	Fires   int
	Every   time.Duration
	Behind  time.Duration // its clock
	Retries int
	Takes   time.Duration // the job
}

// lease is that of a machine.
const lease = time.Second

// work does the work of a machine.
func (m machine) work(ctx context.Context) error {
	rdb := redis.NewClient(redistest.AsUser(&redis.Options{Addr: m.Addr}))
	defer rdb.Close()
	notes := redis.NewClient(&redis.Options{Addr: m.Addr})
	defer notes.Close()
	c := latchkey.New(rdb, latchkey.WithWatchdogTimeout(lease))
	defer c.Close()
	job := once.New(c, "report", policy(m.Retries))
	for n := range m.Fires {
		fire := m.Begin.Add(time.Duration(n) * m.Every)
		time.Sleep(time.Until(fire.Add(m.Behind)))
		_, err := job.Do(ctx, fire, func(ctx context.Context) error {
			err := notes.RPush(ctx, "ran", fire.UnixMilli()).Err()
			time.Sleep(m.Takes)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func policy(retries int) once.Option {
	if retries == 0 {
		return once.OnFailure(once.Skip)
	}
	return once.OnFailure(once.Retry(retries))
}

// Three processes whose clocks differ by some periods run a job of 10 ms exactly once
// for each fire.
func TestOncePerFireOfProcesses(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	const every = 10 * time.Millisecond
	fires := redistest.Many(1000, 50)
	begin := time.Now().Truncate(every).Add(500 * time.Millisecond) // when all are up
	var all []func() error
	for i := range 3 {
		_, wait := redistest.StartSelf(t, machine{
			Addr: s.Addr, Begin: begin, Fires: fires, Every: every, Behind: time.Duration(i) * 3 * every, Takes: every, Retries: 1,
		})
		all = append(all, wait)
	}
	for _, wait := range all {
		require.NoError(t, wait())
	}
	runs := map[string]int{}
	for _, fire := range rdb.LRange(t.Context(), "ran", 0, -1).Val() {
		runs[fire]++
	}
	require.Len(t, runs, fires)
	for fire, n := range runs {
		require.Equal(t, 1, n, fire)
	}
	done, err := once.New(locktest.NewClient(t, rdb), "report").Runs(t.Context(), fires)
	require.NoError(t, err)
	require.Len(t, done, fires)
	pids := map[int]int{}
	for _, r := range done {
		require.Equal(t, once.Done, r.Outcome)
		require.Equal(t, 1, r.Attempt)
		pids[r.PID]++
	}
	t.Logf("runs of each process: %v", pids)
}

// A process is killed in the middle of a run. With Retry, one of those that wait runs
// the fire again, once, when the lease has ended; with Skip nobody does.
func TestKilledInTheMiddle(t *testing.T) {
	for _, retries := range []int{0, 2} {
		t.Run(fmt.Sprintf("Retries=%d", retries), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := s.Client(t)
			m := machine{Addr: s.Addr, Begin: time.Now(), Fires: 1, Retries: retries, Takes: time.Hour}
			killed, wait := redistest.StartSelf(t, m)
			redistest.Until(t, "it to run", func() bool { return rdb.LLen(t.Context(), "ran").Val() == 1 })
			job := once.New(locktest.NewClient(t, rdb), "report", policy(retries))
			require.Equal(t, once.Running, last(t, job).Outcome)
			m.Takes = 10 * time.Millisecond
			var others []func() error
			for range 2 {
				_, wait := redistest.StartSelf(t, m)
				others = append(others, wait)
			}
			if retries > 0 { // until the others wait
				redistest.Until(t, "the others to wait", func() bool {
					channels := rdb.PubSubChannels(t.Context(), "redisson_lock__channel:*").Val()
					n := int64(0)
					for _, count := range rdb.PubSubNumSub(t.Context(), channels...).Val() {
						n = max(n, count)
					}
					return n == 2
				})
			}
			require.NoError(t, killed.Process.Kill())
			require.Error(t, wait())
			for _, wait := range others {
				require.NoError(t, wait())
			}
			if retries > 0 {
				require.EqualValues(t, 2, rdb.LLen(t.Context(), "ran").Val())
				require.Equal(t, once.Done, last(t, job).Outcome)
				require.Equal(t, 2, last(t, job).Attempt)
				require.NotEqual(t, killed.Process.Pid, last(t, job).PID)
			} else {
				redistest.Until(t, "the lease to end", func() bool { return last(t, job).Outcome == once.Lost })
				require.False(t, do(t, job, m.Begin, nothing))
				require.EqualValues(t, 1, rdb.LLen(t.Context(), "ran").Val())
				require.Equal(t, killed.Process.Pid, last(t, job).PID)
			}
		})
	}
}
