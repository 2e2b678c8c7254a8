package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is right in most cells, see plan.go for the letters.
var (
	keeps   = want{"k", "k", "k", "k"}
	doubts  = want{"k", "ka", "ka", "k"}
	retries = want{"k", "kra", "ka", "k"}
	loses   = want{"l", "kra", "kla", "ed"}
)

// serverRows are what can happen to one server.
var serverRows = []*row{
	{
		id:      "A1",
		remarks: map[byte]string{'C': "a latch without a count is open, as in Redisson", 'S': "a semaphore that is gone has no permits, as in Redisson", 'P': "likewise; the waiter waits until somebody sets it again"},
		fast:    true, lossy: true,
		fault: func(r *rig, begun func()) {
			r.server.Restart(r)
			r.happened(1)
			begun()
		},
		// Exclusion is not promised here: d is what the plan says.
		want: loses,
		except: map[byte]want{
			'S': {"k", "ra", "k", "k"},  // no semaphore has no permits
			'P': {"l", "ra", "l", "r"},  // likewise; the waiter waits until somebody sets it
			'C': {"k", "k", "kl", "dk"}, // no count is an open latch, as in Redisson
			'R': doubts,
		},
	},
	{
		// With everysec a write may wait in memory for the fsync before it, and is gone.
		id: "A2", fast: true, lease: failoverLease, args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		fault: func(r *rig, begun func()) {
			for range 3 {
				r.server.Restart(r)
				r.happened(1)
				begun()
			}
		},
		want: doubts,
	},
	{
		id:      "A3",
		remarks: map[byte]string{0: "what is gone depends on where the tail is cut"},
		lossy:   true, args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		fault: powerLoss,
		// Whose last scripts are gone depends on where the tail was cut.
		want: want{"kl", "kra", "kla", "kedr"},
	},
	{
		id: "A4", fast: true,
		fault: func(r *rig, begun func()) { freeze(r, 700*time.Millisecond, begun) },
		want:  doubts,
	},
	{
		id:      "A5",
		remarks: map[byte]string{0: "a grant that waited in the frozen server for longer than the lease is void: the lease is 2 s here"},
		fast:    true, long: true,
		fault: func(r *rig, begun func()) { freeze(r, r.lease+time.Second, begun) },
		// What waited in the frozen server for longer than the lease is void.
		want: want{"l", "krav", "kla", "ev"},
		except: map[byte]want{
			'S': doubts, 'C': doubts, 'R': doubts,
		},
	},
	{
		id:      "A6",
		remarks: map[byte]string{0: "loading may take longer than a lease of 2 s"},
		start: func(r *rig) {
			r.single()
			pipe := r.admin.Pipeline()
			for i := range 3000 {
				pipe.Set(r.ctx, fmt.Sprint("filler", i), i, 0)
			}
			if _, err := pipe.Exec(r.ctx); err != nil {
				r.Fatal(err)
			}
		},
		fault: loading, limit: 8 * time.Second,
		// Loading may take longer than a lease that was saved before it.
		want: want{"kl", "kra", "kla", "ke"}, long: true,
		except: map[byte]want{'S': retries, 'C': retries, 'R': doubts},
	},
	{
		id: "A7", fast: true, args: []string{"--busy-reply-threshold", "100"},
		fault: func(r *rig, begun func()) {
			script := `local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local till = us() + tonumber(ARGV[1]) * 1000 while us() < till do end return 1`
			over := make(chan error, 1)
			go func() { over <- r.server.Client(r).Eval(r.ctx, script, nil, 900).Err() }()
			for spinning := true; spinning; r.sleep(20 * time.Millisecond) {
				if err := r.admin.Ping(r.ctx).Err(); err != nil && strings.HasPrefix(err.Error(), "BUSY") {
					r.happened(1)
					begun()
				}
				select {
				case err := <-over:
					spinning = false
					if err != nil {
						r.Errorf("spinning: %v", err)
					}
				default:
				}
			}
		},
		want: retries,
	},
	{
		id: "A8", fast: true,
		fault: func(r *rig, begun func()) {
			r.do("CLIENT", "PAUSE", 300, "WRITE")
			begun()
			r.sleep(400 * time.Millisecond)
			r.do("CLIENT", "PAUSE", 300, "ALL")
			r.sleep(400 * time.Millisecond)
			r.happened(2)
		},
		want: doubts,
	},
	{
		id: "A9", fast: true,
		fault: func(r *rig, begun func()) {
			begun()
			r.every(10*time.Millisecond, func() {
				r.do("SCRIPT", "FLUSH")
				r.happened(1)
			})
		},
		want: keeps,
	},
	{
		id:      "A10",
		remarks: map[byte]string{'P': "granted: the sweep of lapsed permits comes first, and Redis lets a script that has begun to write go on"},
		fast:    true,
		fault: func(r *rig, begun func()) {
			r.do("CONFIG", "SET", "maxmemory", 1)
			if redis.IsOOMError(r.admin.Set(r.ctx, "x", "x", 0).Err()) {
				r.happened(1)
			}
			begun()
			r.sleep(time.Second)
			r.do("CONFIG", "SET", "maxmemory", 0)
		},
		want: want{"k", "f", "k", "k"},
		except: map[byte]want{
			'R': doubts,
			// The sweep of what has lapsed comes first, and Redis lets a script write on
			// that has begun to.
			'P': {"k", "kf", "k", "k"},
		},
	},
	{
		id:      "A11",
		remarks: map[byte]string{0: "Redis chooses what it throws away"},
		lossy:   true,
		fault:   evict,
		want:    want{"kl", "kraf", "kla", "kedrm"}, // who asks meanwhile may be refused
	},
	{
		id:      "A12",
		remarks: map[byte]string{'C': "a latch without a count is open, as in Redisson", 'S': "a semaphore that is gone has no permits, as in Redisson", 'P': "likewise; the waiter waits until somebody sets it again"},
		fast:    true, lossy: true,
		fault: func(r *rig, begun func()) {
			r.do("FLUSHALL")
			r.happened(1)
			begun()
		},
		want: loses,
		except: map[byte]want{
			// Refused by the end of the time, or in doubt: a request was under way then.
			'S': {"k", "ra", "k", "k"},
			'P': {"l", "ra", "l", "r"},
			'C': {"k", "k", "k", "dk"},
			'R': doubts,
		},
	},
	{id: "A13", fast: true, play: wrongTypes},
	{id: "A14", play: garbage},
}

// freeze suspends the server for so long.
func freeze(r *rig, d time.Duration, begun func()) {
	r.server.Freeze()
	r.happened(1)
	begun()
	r.sleep(d)
	r.server.Thaw()
}

// powerLoss cuts the end off what has been written last.
func powerLoss(r *rig, begun func()) {
	for _, cut := range []int64{1, 700} {
		r.server.Kill()
		files, err := filepath.Glob(filepath.Join(r.server.Dir, "appendonlydir", "*.incr.aof"))
		if err != nil || len(files) == 0 {
			r.Fatalf("no append-only file: %v", err)
		}
		info, err := os.Stat(files[len(files)-1])
		if err != nil {
			r.Fatal(err)
		}
		if err := os.Truncate(files[len(files)-1], max(info.Size()-cut, 0)); err != nil {
			r.Fatal(err)
		}
		r.server.Restart(r)
		r.happened(1)
		begun()
	}
}

// loading restarts the server with more data than it loads at once.
func loading(r *rig, begun func()) {
	r.server.Do(r, "SAVE")
	r.server.Kill()
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		r.server.Restart(r, "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")
	}()
	for over := false; !over; {
		select {
		case <-restarted:
			over = true
		default:
			if redis.IsLoadingError(r.admin.Ping(r.ctx).Err()) {
				r.happened(1)
				begun()
			}
			r.sleep(20 * time.Millisecond)
		}
	}
}

// evict has the server throw away what expires, for want of memory.
func evict(r *rig, begun func()) {
	r.do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	used, err := r.admin.Info(r.ctx, "memory").Result()
	if err != nil {
		r.Fatal(err)
	}
	var bytes int64
	for line := range strings.Lines(used) {
		if n, ok := strings.CutPrefix(line, "used_memory:"); ok {
			_, _ = fmt.Sscan(n, &bytes)
		}
	}
	r.do("CONFIG", "SET", "maxmemory", bytes+200_000)
	begun()
	for i := range 2000 {
		if r.admin.Set(r.ctx, fmt.Sprint("filler", i), strings.Repeat("x", 1000), time.Hour).Err() != nil {
			break
		}
	}
	stats := r.admin.Info(r.ctx, "stats").Val()
	for line := range strings.Lines(stats) {
		var n int
		if text, ok := strings.CutPrefix(line, "evicted_keys:"); ok {
			if _, err := fmt.Sscan(text, &n); err == nil {
				r.happened(n)
			}
		}
	}
	r.do("CONFIG", "SET", "maxmemory", 0)
}

// values puts something of each type that a key can have into one.
var values = map[string]func(ctx context.Context, rdb redis.UniversalClient, key string) error{
	"string": func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Set(ctx, key, "somebody else's", 0).Err()
	},
	"list": func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.RPush(ctx, key, "x").Err()
	},
	"set": func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.SAdd(ctx, key, "x").Err()
	},
	"zset": func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: "x"}).Err()
	},
	"hash": func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.HSet(ctx, key, "field", "1").Err()
	},
	"stream": func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Err()
	},
}
