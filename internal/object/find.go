package object

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/names"
)

// A Finder finds the objects in Redis by one SCAN over the keys and by the
// Redis channels that have listeners.
type Finder struct {
	Match string   // pattern that names match; empty for all
	Kinds []string // of KindNames; empty for all
	All   bool     // include integers that may be objects, and free locks

	keys atomic.Int64 // number of keys read

	// mu guards the fields below.
	mu    sync.Mutex
	names map[string]bool // names of objects, according to their keys
	// Names of jobs and of elections that Find has passed.
	jobs, elections map[string]bool
}

// Beginning returns a Finder of the objects whose names begin with prefix.
func Beginning(prefix string) *Finder {
	return &Finder{Match: strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(prefix) + "*"}
}

// KindNames are the kinds that Kinds may have.
var KindNames = []string{
	string(latchkey.KindLock), string(latchkey.KindFair), string(latchkey.KindReadWrite), string(latchkey.KindMultiLock),
	string(latchkey.KindSemaphore), string(latchkey.KindPermitSemaphore), string(latchkey.KindLatch), string(latchkey.KindCounter), KindFree,
}

// Looked returns the number of keys read so far.
func (f *Finder) Looked() int64 { return f.keys.Load() }

// scanCount is the COUNT of a SCAN.
const scanCount = 1000

// Find returns the names of the objects, sorted.
func (f *Finder) Find(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	return f.find(ctx, rdb, func(ctx context.Context, node *redis.Client) error {
		pattern := ""
		if f.Match != "" {
			pattern = "*" + f.Match + "*" // side keys have text around the name
		}
		// It asks about the keys through rdb, because a key whose slot is being moved
		// may have another node by then.
		err := f.scan(ctx, node, pattern, "", func(keys []string) error { return f.look(ctx, rdb, keys) })
		return errors.Join(err, f.listen(ctx, node))
	})
}

// Jobs returns the names of the jobs of package once that have runs, sorted.
func (f *Finder) Jobs(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	return f.findBy(ctx, rdb, names.RunsLike(f.Match), "zset", names.Job)
}

// Elections returns the names of the elections of package elect that have had a leader
// lately, sorted.
func (f *Finder) Elections(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	return f.findBy(ctx, rdb, names.LeaderLike(f.Match), "hash", names.Elected)
}

// findBy returns the names that of has for keys of a type that match a pattern.
func (f *Finder) findBy(ctx context.Context, rdb redis.UniversalClient, pattern, kind string, of func(key string) (name string, ok bool)) ([]string, error) {
	return f.find(ctx, rdb, func(ctx context.Context, node *redis.Client) error {
		return f.scan(ctx, node, pattern, kind, func(keys []string) error {
			for _, key := range keys {
				if name, ok := of(key); ok {
					f.add(name)
				}
			}
			return nil
		})
	})
}

// Passed returns the names of the jobs that have runs, and of the elections that have had
// a leader, whose keys the last Find has passed, sorted.
func (f *Finder) Passed() (jobs, elections []string) {
	return slices.Sorted(maps.Keys(f.jobs)), slices.Sorted(maps.Keys(f.elections))
}

// find runs look for each server that has keys, and returns the names that it adds.
func (f *Finder) find(ctx context.Context, rdb redis.UniversalClient, look func(context.Context, *redis.Client) error) ([]string, error) {
	f.names, f.jobs, f.elections = map[string]bool{}, map[string]bool{}, map[string]bool{}
	err := eachNode(ctx, rdb, func(ctx context.Context, node *redis.Client) error {
		if node == rdb {
			if err := hasAll(ctx, node); err != nil {
				return err
			}
		}
		return look(ctx, node)
	})
	return slices.Sorted(maps.Keys(f.names)), err
}

// hasAll returns an error for a server that is said to be the only one but has
// no names or only a part of them. Every user may send HELLO. A server that
// does not know HELLO is taken for what it is said to be.
func hasAll(ctx context.Context, node *redis.Client) error {
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello")
	if err := node.Process(ctx, hello); err != nil {
		return notReply(err)
	}
	switch hello.Val()["mode"] {
	case "cluster":
		return errors.New("it is a node of a Redis Cluster, and has a part of the names only (--cluster)")
	case "sentinel":
		return errors.New("it is a Sentinel, and has no names (--sentinel-master)")
	}
	return nil
}

// notReply returns err, unless it is a reply of a server.
func notReply(err error) error {
	if _, ok := errors.AsType[redis.Error](err); ok {
		return nil
	}
	return err
}

// Again returns the known names and those that have listeners.
func (f *Finder) Again(ctx context.Context, rdb redis.UniversalClient, known []string) ([]string, error) {
	f.names = map[string]bool{}
	for _, name := range known {
		f.names[name] = true
	}
	err := eachNode(ctx, rdb, f.listen)
	return slices.Sorted(maps.Keys(f.names)), err
}

// eachNode runs f for each server that has keys, in parallel if there are
// several.
func eachNode(ctx context.Context, rdb redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, rdb)
	}
	return errors.New("this kind of client is not for the command")
}

// scan reads the keys of node that match a pattern, of a type unless that is empty.
func (f *Finder) scan(ctx context.Context, node *redis.Client, pattern, kind string, look func(keys []string) error) error {
	for cursor := uint64(0); ; {
		keys, next, err := node.ScanType(ctx, cursor, pattern, scanCount, kind).Result()
		if err != nil {
			return err
		}
		if err := look(keys); err != nil {
			return err
		}
		f.keys.Add(int64(len(keys)))
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// listen adds the names whose wake-ups have listeners. If a server does not
// tell, because we may not ask or because it has no such channels, only waiters
// of free objects are missed.
func (f *Finder) listen(ctx context.Context, node *redis.Client) error {
	for _, ask := range []func(context.Context, string) *redis.StringSliceCmd{node.PubSubChannels, node.PubSubShardChannels} {
		for _, pattern := range []string{"redisson_*", "latchkey_*"} {
			channels, err := ask(ctx, pattern).Result()
			if err := notReply(err); err != nil {
				return err
			}
			for _, ch := range channels {
				if name, side := names.Owner(ch); side == names.SideWakeUps {
					f.add(name)
				}
			}
		}
	}
	return nil
}

func (f *Finder) add(name string) { f.addTo(f.names, name) }

func (f *Finder) addTo(set map[string]bool, name string) {
	if name == "" || f.Match != "" && !glob(f.Match, name) {
		return
	}
	f.mu.Lock()
	set[name] = true
	f.mu.Unlock()
}

// look adds the objects among keys: those to which side keys belong, and those
// that have the shape of one. For the shape it reads the types of keys and one
// field of each hash.
func (f *Finder) look(ctx context.Context, rdb redis.UniversalClient, keys []string) error {
	var mains []string
	for _, key := range keys {
		name, side := names.Owner(key)
		switch side {
		case names.NoSide:
			if f.Match == "" || glob(f.Match, key) {
				mains = append(mains, key)
			}
		case names.SideToken:
			if f.All {
				f.add(name)
			}
		case names.SideRun: // its lock is found by itself
			if job, ok := names.Job(key); ok {
				f.addTo(f.jobs, job)
			}
		case names.SideMemo: // so is its
		case names.SideNote:
			if election, ok := names.Elected(key); ok {
				f.addTo(f.elections, election) // its lock, too, is found by itself
			} else {
				f.add(name)
			}
		default:
			f.add(name)
		}
	}
	types, err := ask(ctx, rdb, mains, func(p redis.Pipeliner, key string) *redis.StatusCmd { return p.Type(ctx, key) })
	if err != nil {
		return err
	}
	var hashes, strs []string
	for i, key := range mains {
		switch types[i].Val() {
		case "hash":
			hashes = append(hashes, key)
		case "string":
			strs = append(strs, key)
		}
	}
	if err := f.lookAtHashes(ctx, rdb, hashes); err != nil || !f.wantsCounters() {
		return err
	}
	return f.lookAtStrings(ctx, rdb, strs)
}

func (f *Finder) lookAtHashes(ctx context.Context, rdb redis.UniversalClient, keys []string) error {
	fields, err := ask(ctx, rdb, keys, func(p redis.Pipeliner, key string) *redis.StringSliceCmd { return p.HRandField(ctx, key, 1) })
	if err != nil {
		return err
	}
	for i, key := range keys {
		if field := fields[i].Val(); len(field) == 1 && lockField.MatchString(field[0]) {
			f.add(key)
		}
	}
	return nil
}

// lockField matches a field of a lock: a holder; the mode of a read-write lock;
// or, in a multi-lock on a group, the hash of a value and the fields that
// belong to it.
var lockField = regexp.MustCompile(`(?s)^(.+:\d+(:write)?|mode|[A-Za-z0-9+/]{22}(:.+:(expire_time|lock_count))?)$`)

// longestInteger is the length of the longest 64-bit integer.
const longestInteger = 20

func (f *Finder) lookAtStrings(ctx context.Context, rdb redis.UniversalClient, keys []string) error {
	values, err := ask(ctx, rdb, keys, func(p redis.Pipeliner, key string) *redis.StringCmd {
		return p.GetRange(ctx, key, 0, longestInteger)
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		if integer.MatchString(values[i].Val()) {
			f.add(key)
		}
	}
	return nil
}

var integer = regexp.MustCompile(`^-?\d{1,19}$`)

// ask sends one command for each key, all in one pipeline. A key that has
// become something else meanwhile is not an error.
func ask[C redis.Cmder](ctx context.Context, rdb redis.UniversalClient, keys []string, command func(redis.Pipeliner, string) C) ([]C, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	cmds := make([]C, len(keys))
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // its error is only that of the first command
		for i, key := range keys {
			cmds[i] = command(p, key)
		}
		return nil
	})
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, err
		}
	}
	return cmds, nil
}

// wantsCounters reports whether to look for integers, which may be semaphores,
// latches, or anything else.
func (f *Finder) wantsCounters() bool {
	for _, k := range f.Kinds {
		switch latchkey.Kind(k) {
		case latchkey.KindCounter, latchkey.KindSemaphore, latchkey.KindPermitSemaphore, latchkey.KindLatch:
			return true
		}
	}
	return f.All
}

// wanted reports whether an object is to be listed.
func (f *Finder) wanted(o *Object) bool {
	switch kind := o.Info.Kind; {
	case kind == latchkey.KindCounter:
		return f.wantsCounters() || len(f.Kinds) == 0 && o.Waiting() > 0
	case len(f.Kinds) > 0:
		return slices.Contains(f.Kinds, o.Kind)
	default:
		return f.All || kind != latchkey.KindFree || o.Waiting() > 0
	}
}

// lookers is the number of objects read at a time.
const lookers = 8

// Objects returns the objects with the given names that are to be listed, in
// order. It leaves out names that turn out to be no object.
func (f *Finder) Objects(ctx context.Context, client *latchkey.Client, names []string) ([]*Object, error) {
	all, err := Each(ctx, names, func(ctx context.Context, name string) (*Object, error) {
		info, err := client.Info(ctx, name)
		if err != nil {
			return nil, err
		}
		return New(info), nil
	})
	return slices.DeleteFunc(all, func(o *Object) bool { return o == nil || !f.wanted(o) }), err
}

// Each calls f for each name, several at a time, and returns the results in order. One
// that is of another type in Redis than its name says has none.
func Each[T any](ctx context.Context, names []string, f func(context.Context, string) (T, error)) ([]T, error) {
	all := make([]T, len(names))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(lookers, len(names)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(names); i = next.Add(1) - 1 {
				got, err := f(ctx, names[i])
				switch {
				case errors.Is(err, latchkey.ErrKeyConflict):
				case err != nil:
					cancel(err)
					return
				default:
					all[i] = got
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return all, nil
}
