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
	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/internal/names"
)

// A Finder finds the objects there are, by one pass of SCAN over the keys and a
// look at the Redis channels that somebody listens to.
type Finder struct {
	match string // pattern that names match; empty for all
	kinds []string
	all   bool // also what may be an object, and those that are free

	keys atomic.Int64 // looked at so far

	// mu guards the field below.
	mu    sync.Mutex
	names map[string]bool // of objects, as far as their keys tell
}

// kindNames are what --kind takes.
var kindNames = []string{
	string(latchkey.KindLock), string(latchkey.KindFair), string(latchkey.KindReadWrite), string(latchkey.KindMultiLock),
	string(latchkey.KindSemaphore), string(latchkey.KindPermitSemaphore), string(latchkey.KindLatch), string(latchkey.KindCounter), KindFree,
}

// Register adds the flags that choose what is listed.
func (f *Finder) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.match, "match", "", "only names that match the `PATTERN`: * ? [a-z], as in Redis")
	cmd.Flags().StringSliceVar(&f.kinds, "kind", nil, "only these `KINDS`: "+strings.Join(kindNames, ", "))
	cmd.Flags().BoolVarP(&f.all, "all", "A", false, "also integers that may be semaphores or latches, and free locks with a token")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames, cobra.ShellCompDirectiveNoFileComp))
}

// Check checks the flags.
func (f *Finder) Check() error {
	for _, k := range f.kinds {
		if !slices.Contains(kindNames, k) {
			return exit.Usagef("%s is no kind; there are %s", text.Name(k), strings.Join(kindNames, ", "))
		}
	}
	return nil
}

// Looked is how many keys were looked at so far.
func (f *Finder) Looked() int64 { return f.keys.Load() }

// scanCount is how many keys a SCAN looks at.
const scanCount = 1000

// Find returns the names of the objects, in order.
func (f *Finder) Find(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	// When ctx ends, so do the connections: go-redis would wait for a silent server.
	defer context.AfterFunc(ctx, func() { _ = rdb.Close() })()
	f.names = map[string]bool{}
	err := eachNode(ctx, rdb, func(ctx context.Context, node *redis.Client) error {
		if node == rdb {
			if err := hasAll(ctx, node); err != nil {
				return err
			}
		}
		return errors.Join(f.scan(ctx, rdb, node), f.listen(ctx, node))
	})
	return slices.Sorted(maps.Keys(f.names)), err
}

// hasAll refuses a server, said to be the only one, that has no names or a part of them. All
// users may send HELLO; a server that does not know it is taken for what it was said to be.
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

// notReply returns err unless it is what a server has answered.
func notReply(err error) error {
	if _, ok := errors.AsType[redis.Error](err); ok {
		return nil
	}
	return err
}

// Again returns the names that are known and those that somebody listens to.
func (f *Finder) Again(ctx context.Context, rdb redis.UniversalClient, known []string) ([]string, error) {
	defer context.AfterFunc(ctx, func() { _ = rdb.Close() })()
	f.names = map[string]bool{}
	for _, name := range known {
		f.names[name] = true
	}
	err := eachNode(ctx, rdb, f.listen)
	return slices.Sorted(maps.Keys(f.names)), err
}

// eachNode runs f for each server that has keys: at once, where there are several.
func eachNode(ctx context.Context, rdb redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, rdb)
	}
	return errors.New("this kind of client is not for the command")
}

// scan looks at the keys that node has. It asks about them through rdb: one of a
// slot that is on the move in a cluster may be with another node by now.
func (f *Finder) scan(ctx context.Context, rdb redis.UniversalClient, node *redis.Client) error {
	pattern := ""
	if f.match != "" {
		pattern = "*" + f.match + "*" // side keys have something around the name
	}
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		if err := f.look(ctx, rdb, keys); err != nil {
			return err
		}
		f.keys.Add(int64(len(keys)))
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// listen adds the names whose wake-ups somebody listens to. A server that does
// not tell, not us, or nobody as it has no such channels, hides nothing but waiters of
// what is free.
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

func (f *Finder) add(name string) {
	if name == "" || f.match != "" && !glob(f.match, name) {
		return
	}
	f.mu.Lock()
	f.names[name] = true
	f.mu.Unlock()
}

// look adds the objects among keys: those that side keys stand for, and those
// that have the shape of one. For that it asks for the types of keys, and of each
// hash for a field.
func (f *Finder) look(ctx context.Context, rdb redis.UniversalClient, keys []string) error {
	var mains []string
	for _, key := range keys {
		name, side := names.Owner(key)
		switch side {
		case names.NoSide:
			if f.match == "" || glob(f.match, key) {
				mains = append(mains, key)
			}
		case names.SideToken:
			if f.all {
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

// lockField is what a field of a lock looks like: a holder; the mode of a
// read-write lock; or, of a multi-lock on a group, the hash of a value, and what
// belongs to it.
var lockField = regexp.MustCompile(`(?s)^(.+:\d+(:write)?|mode|[A-Za-z0-9+/]{22}(:.+:(expire_time|lock_count))?)$`)

// longestInteger is how long an integer of 64 bits may be.
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

// ask sends one command for each key, all together. Keys that have become
// something else meanwhile are no error.
func ask[C redis.Cmder](ctx context.Context, rdb redis.UniversalClient, keys []string, command func(redis.Pipeliner, string) C) ([]C, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	cmds := make([]C, len(keys))
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command only
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

// wantsCounters reports whether to look for integers, which may be semaphores or
// latches, or anything else.
func (f *Finder) wantsCounters() bool {
	for _, k := range f.kinds {
		switch latchkey.Kind(k) {
		case latchkey.KindCounter, latchkey.KindSemaphore, latchkey.KindPermitSemaphore, latchkey.KindLatch:
			return true
		}
	}
	return f.all
}

// wanted reports whether an object is to be shown.
func (f *Finder) wanted(o *Object) bool {
	switch kind := o.info.Kind; {
	case kind == latchkey.KindCounter:
		return f.wantsCounters()
	case len(f.kinds) > 0:
		return slices.Contains(f.kinds, o.Kind)
	default:
		return f.all || kind != latchkey.KindFree || o.Waiting() > 0
	}
}

// lookers is how many objects are looked at at a time.
const lookers = 8

// Objects returns the objects of those names that are to be shown, in order.
// What is no object after all is left out.
func (f *Finder) Objects(ctx context.Context, client *latchkey.Client, names []string) ([]*Object, error) {
	all := make([]*Object, len(names))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(lookers, len(names)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(names); i = next.Add(1) - 1 {
				info, err := client.Info(ctx, names[i])
				switch {
				case errors.Is(err, latchkey.ErrKeyConflict):
				case err != nil:
					cancel(err)
					return
				default:
					all[i] = New(info)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o *Object) bool { return o == nil || !f.wanted(o) }), nil
}
