package interop

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

const (
	stressWork = "LATCHKEY_INTEROP_STRESS" // a stressJob, in the processes that do one

	javaThreads           = 16 // in each of two JVMs
	processes, goroutines = 2, 32

	alone   = 1000 // how much may be inside an exclusive section: as much as its weight
	permits = 5    // of a semaphore
)

// Enter and leave are the scripts of the detector; Java runs the same.
var (
	//go:embed java/src/main/resources/latchkey/interop/enter.lua
	enterSource string
	//go:embed java/src/main/resources/latchkey/interop/leave.lua
	leaveSource string

	enter, leave = redis.NewScript(enterSource), redis.NewScript(leaveSource)
)

// A stressJob is what one process does.
type stressJob struct {
	Addrs                []string
	Mode                 latchkey.PubSubMode
	Kind, Name, Detector string
	Millis               int64
	Limit                int
}

// A stressReport is how it went.
type stressReport struct {
	Sections, Least int // of all goroutines, and of the one that had the fewest
	Losses          int64
}

// stresses are the objects of the mixed stress. The short run has the old releases
// show only where they differ most.
func stresses(v version) []string {
	switch {
	case os.Getenv("INTEROP_LONG") != "":
		all := []string{"rlock", "spin", "fair", "rw", "sem", "permit", "multi"}
		if v.since(hasFenced) {
			all = append(all, "fenced")
		}
		if v.since(hasGroupLock) {
			all = append(all, "group")
		}
		return all
	case v == releases[0]:
		return []string{"rlock", "fair", "rw", "permit"}
	}
	return []string{"fair", "rw"}
}

// testStress lets many threads of two JVMs and many goroutines of two processes
// use the same object. In the critical section each one changes a detector in
// Redis, which counts overlaps.
func testStress(t *testing.T, r *rig) {
	d := 5 * time.Second
	if os.Getenv("INTEROP_LONG") != "" {
		d = time.Minute
	}
	var javas []*redisson
	for _, j := range []*jvm{r.jvm, startJVM(t, r.version)} {
		javas = append(javas, j.open(t, r.address(), "strings=true")) // for the group
	}
	for _, kind := range stresses(r.version) {
		t.Run("stress "+kind, func(t *testing.T) { stress(t, r, kind, d, javas) })
	}
}

func stress(t *testing.T, r *rig, kind string, d time.Duration, javas []*redisson) {
	name := r.name(t, "redisson_lock_token:{%s}")
	javaName := name
	job := stressJob{r.addresses(), r.mode, kind, name, "detector:{" + name + "}", d.Milliseconds(), 1}
	switch kind {
	case "rw":
		job.Limit = alone
	case "multi":
		// In the order of their names, as docs/interop.md asks for: in another one the
		// two sides get in each other's way for seconds at a time.
		javaName = name + "a," + name + "b," + name + "c"
	case "group":
		javaName = name + ":a,b"
	case "sem", "permit":
		job.Limit = permits
		java := r.j.thread()
		require.True(t, java.yes(t, kind+".tryset", name, permits))
		t.Cleanup(func() { java.do(t, kind+".delete", name) })
	}
	t.Cleanup(func() { r.rdb.Del(context.Background(), job.Detector) })

	reports := make([]stressReport, processes)
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() { reports[i] = job.inProcess(t) })
	}
	var calls []*call
	for range javaThreads {
		for _, j := range javas {
			calls = append(calls, j.thread().start("stress", kind, javaName, job.Millis, job.Limit, job.Detector))
		}
	}
	java, golang := 0, 0
	for _, c := range calls {
		n, err := strconv.Atoi(c.wait(t, d+time.Minute))
		require.NoError(t, err)
		require.Positive(t, n)
		java += n
	}
	wg.Wait()
	for _, rep := range reports {
		require.Positive(t, rep.Least, "critical sections of the goroutine that had the fewest, of %d", rep.Sections)
		require.Zero(t, rep.Losses)
		golang += rep.Sections
	}
	found := r.rdb.HGetAll(t.Context(), job.Detector).Val()
	t.Logf("%s: %d critical sections of Java, %d of Go, in %v; the detector: %v", kind, java, golang, d, found)
	require.Empty(t, found["violations"], "overlaps")
	require.Equal(t, "0", found["inside"], "inside at the end")
	require.Equal(t, strconv.Itoa(java), found["java"], "as Redis has counted them")
	require.Equal(t, strconv.Itoa(golang), found["go"], "as Redis has counted them")
	require.Zero(t, r.rdb.Exists(t.Context(), job.Detector+":marker").Val())
	switch kind {
	case "sem":
		require.EqualValues(t, permits, r.j.thread().number(t, "sem.available", name))
	case "permit":
		require.EqualValues(t, permits, r.j.thread().number(t, "permit.available", name))
	}
}

// inProcess does the job in a process of its own.
func (job stressJob) inProcess(t *testing.T) (rep stressReport) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return rep
	}
	work, err := json.Marshal(job)
	if err != nil {
		t.Error(err)
		return rep
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), stressWork+"="+string(work))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if jerr := json.Unmarshal(stdout.Bytes(), &rep); err != nil || jerr != nil {
		t.Errorf("a Go process: %v, %v\n%s\n%s", err, jerr, &stdout, &stderr)
	}
	return rep
}

// stressChild is that process. It returns the exit code.
func stressChild(work string) int {
	var job stressJob
	err := json.Unmarshal([]byte(work), &job)
	if err == nil {
		var rep stressReport
		if rep, err = job.run(); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(rep)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (job stressJob) run() (rep stressReport, err error) {
	rdb := connect(job.Addrs, nil)
	defer rdb.Close()
	c := latchkey.New(rdb, latchkey.WithPubSub(job.Mode))
	take := job.taker(c)
	end := time.Now().Add(time.Duration(job.Millis) * time.Millisecond)
	// Whoever waits at the end has its turn yet.
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(30*time.Second))
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			n, werr := job.worker(ctx, rdb, take, fmt.Sprint(c.ID(), " ", i), end)
			mu.Lock()
			defer mu.Unlock()
			rep.Sections += n
			if i == 0 || n < rep.Least {
				rep.Least = n
			}
			if err == nil {
				err = werr
			}
		})
	}
	wg.Wait()
	rep.Losses = int64(c.Stats().Losses)
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return rep, err
}

// A taker acquires; it returns how to give back, and the weight of the section.
type taker func(ctx context.Context) (give func(context.Context) error, weight int, err error)

func (job stressJob) taker(c *latchkey.Client) taker {
	lock := func(l latchkey.Locker, weight int) taker {
		return func(ctx context.Context) (func(context.Context) error, int, error) {
			h, err := l.Lock(ctx)
			return h.Unlock, weight, err
		}
	}
	switch job.Kind {
	case "rlock":
		return lock(rlock.New(c, job.Name), 1)
	case "spin":
		return lock(rlock.New(c, job.Name, rlock.Spin(rlock.Backoff{})), 1)
	case "fenced":
		return lock(rlock.New(c, job.Name, rlock.Fenced()), 1)
	case "fair":
		return lock(fairlock.New(c, job.Name), 1)
	case "multi":
		return lock(multilock.New(rlock.New(c, job.Name+"a"), rlock.New(c, job.Name+"b"), rlock.New(c, job.Name+"c")), 1)
	case "group":
		return lock(multilock.NewGroup(c, job.Name, "b", "c"), 1)
	case "rw":
		rw := rwlock.New(c, job.Name)
		read, write := lock(rw.ReadLock(), 1), lock(rw.WriteLock(), alone)
		return func(ctx context.Context) (func(context.Context) error, int, error) {
			if rand.IntN(8) == 0 {
				return write(ctx)
			}
			return read(ctx)
		}
	case "sem":
		s := semaphore.New(c, job.Name)
		return func(ctx context.Context) (func(context.Context) error, int, error) {
			return func(ctx context.Context) error { return s.Release(ctx, 1) }, 1, s.Acquire(ctx, 1)
		}
	case "permit":
		s := permitsemaphore.New(c, job.Name)
		return func(ctx context.Context) (func(context.Context) error, int, error) {
			p, err := s.Acquire(ctx)
			return p.Release, 1, err
		}
	}
	panic("there is no kind " + job.Kind)
}

// worker goes through the critical section again and again, at least once.
func (job stressJob) worker(ctx context.Context, rdb redis.UniversalClient, take taker, who string, end time.Time) (n int, err error) {
	keys := []string{job.Detector, job.Detector + ":marker"}
	for n == 0 || time.Now().Before(end) {
		give, weight, err := take(ctx)
		if err != nil {
			return n, err
		}
		for _, script := range []*redis.Script{enter, leave} {
			if err := script.Run(ctx, rdb, keys, who, weight, job.Limit, "go").Err(); err != nil {
				return n, err
			}
		}
		if err := give(ctx); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
