package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
)

// mainKeys are what a column keeps where.
func mainKeys(column byte, name string) []string {
	switch column {
	case 'F':
		return []string{name, "redisson_lock_queue:{" + name + "}", "redisson_lock_timeout:{" + name + "}"}
	case 'P':
		return []string{name, "{" + name + "}:timeout"}
	case 'M':
		return []string{name + ".2"} // so that the first member is taken before
	case 'X':
		return []string{name, "redisson_lock_token:{" + name + "}"}
	}
	return []string{name}
}

// each plays f for all columns at once.
func each(columns []byte, f func(column byte, s *sight)) map[byte]*sight {
	sights := map[byte]*sight{}
	var wg sync.WaitGroup
	for _, column := range columns {
		s := &sight{}
		sights[column] = s
		wg.Go(func() { f(column, s) })
	}
	wg.Wait()
	return sights
}

// attempt takes a thing and gives it back, and returns what came of it.
func attempt(r *rig, t thing, wait time.Duration, s *sight) (byte, error) {
	ctx, cancel := context.WithTimeout(r.ctx, wait)
	defer cancel()
	begin := time.Now()
	err := t.prepare(ctx)
	var g *grip
	if err == nil {
		g, err = t.take(ctx)
	}
	if late := time.Since(begin) - wait - 100*time.Millisecond; late > slow {
		s.fault("the call returned %v after its context", late)
	}
	if err != nil {
		return letter(err), err
	}
	if err := g.give(r.ctx); err != nil {
		return letter(err), err
	}
	return 'k', nil
}

// wrongTypes has values of each type stand where objects are to be: each call
// must fail with an error that says so, or find it taken, and leave it alone.
func wrongTypes(r *rig, w *row, columns []byte) map[byte]*sight {
	w.want = want{fresh: "f"}
	r.single()
	r.sides()
	return each(columns, func(column byte, s *sight) {
		failed, taken, ours := 0, 0, 0
		for _, kind := range slices.Sorted(maps.Keys(values)) {
			base := r.name(column, kind)
			for i, key := range mainKeys(column, base) {
				name := fmt.Sprint(base, i)
				key = strings.ReplaceAll(key, base, name)
				if err := values[kind](r.ctx, r.admin, key); err != nil {
					s.fault("%v", err)
					continue
				}
				r.happened(1)
				before := r.admin.Dump(r.ctx, key).Val()
				got, err := attempt(r, newThing(column, name, r.a), 2*time.Second, s)
				switch {
				case got == 'f':
					failed++
					if strings.Contains(err.Error(), "WRONGTYPE") && !errors.Is(err, latchkey.ErrKeyConflict) {
						s.fault("%s at %s: the error is no ErrKeyConflict: %v", kind, key, err)
					}
				case got == 'r':
					taken++ // a hash with a foreign field is a lock that somebody has
				case got == 'k':
					ours++ // its own type, or a member that does not matter
				default:
					s.fault("%s at %s: %s: %v", kind, key, words[got], err)
				}
				if got != 'k' && r.admin.Dump(r.ctx, key).Val() != before {
					s.fault("%s at %s was changed", kind, key)
				}
				if got != 'k' && column == 'M' && r.admin.Exists(r.ctx, name+".1").Val() != 0 {
					s.fault("%s: the first member is held yet", kind)
				}
			}
		}
		s.note("%d calls failed with an error, %d found it taken, %d worked", failed, taken, ours)
		s.fresh = 'f'
		if failed == 0 && column != 'R' {
			s.fault("no call failed")
		}
	})
}

// rubbish are values that nobody would write.
var rubbish = []string{"", "-1", "9223372036854775808", "nan", "1e308", "\x00\xff\xfe", "0x10", "1.5", strings.Repeat("9", 400)}

// garbage has objects of the right type full of rubbish: each call must come back,
// with an error or without, and nothing is stuck when it is gone.
func garbage(r *rig, w *row, columns []byte) map[byte]*sight {
	w.want = want{fresh: "f"}
	r.single()
	r.sides()
	return each(columns, func(column byte, s *sight) {
		var counts [256]int
		for i, text := range rubbish {
			name := r.name(column, fmt.Sprint(i))
			pipe := r.admin.Pipeline()
			for _, key := range mainKeys(column, name) {
				spoil(r.ctx, pipe, column, key, text)
				pipe.PExpire(r.ctx, key, 300*time.Millisecond)
			}
			if _, err := pipe.Exec(r.ctx); err != nil {
				r.happened(-1) // the server did not take it
			}
			r.happened(1)
			got, _ := attempt(r, newThing(column, name, r.a), 2*time.Second, s)
			counts[got]++
			if column == 'M' && got != 'k' && r.admin.Exists(r.ctx, name+".1").Val() != 0 {
				s.fault("%q: the first member is held yet", text)
			}
			for _, key := range append(mainKeys(column, name), name) {
				r.admin.Del(r.ctx, key)
			}
			t := newThing(column, name+"-afterwards", r.b)
			if got, err := attempt(r, t, 3*time.Second, s); got != 'k' {
				s.fault("afterwards: %v", err)
			}
			_ = t.clean(r.ctx)
		}
		s.fresh = 'f'
		s.note("%d calls failed with an error, %d found it taken, %d worked once it had expired", counts['f']+counts['l'], counts['r'], counts['k'])
		if counts['a'] > 0 {
			s.fault("%d calls are in doubt", counts['a'])
		}
	})
}

func spoil(ctx context.Context, pipe redis.Pipeliner, column byte, key, text string) {
	switch {
	case strings.HasPrefix(key, "redisson_lock_queue"):
		pipe.RPush(ctx, key, text, text)
	case strings.HasPrefix(key, "redisson_lock_timeout"), strings.HasSuffix(key, ":timeout"):
		pipe.ZAdd(ctx, key, redis.Z{Score: -1e300, Member: text})
	case strings.HasPrefix(key, "redisson_lock_token"), strings.IndexByte("SPC", column) >= 0:
		pipe.Set(ctx, key, text, 0)
	case column == 'W':
		pipe.HSet(ctx, key, "mode", text, text, text)
	default:
		pipe.HSet(ctx, key, "somebody", text, text, "1")
	}
}
