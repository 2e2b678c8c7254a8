package matrix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// clientRows are what goes wrong with the processes that use the library.
var clientRows = []*row{
	{
		id: "E1", fast: true,
		play: func(r *rig, w *row, columns []byte) map[byte]*sight {
			return heldByChild(r, columns, nil, func(c *child) map[string]told {
				c.signal(r, syscall.SIGKILL)
				return nil
			})
		},
		want: want{next: "e"},
		except: map[byte]want{
			'S': {next: "r"}, // its permit is gone, until somebody sets it again
			'C': {next: "r"}, // its count is missing
		},
	},
	{
		id: "E2", fast: true,
		play: func(r *rig, w *row, columns []byte) map[byte]*sight {
			return heldByChild(r, columns, nil, func(c *child) map[string]told {
				c.signal(r, syscall.SIGSTOP)
				r.sleep(r.lease + time.Second)
				c.signal(r, syscall.SIGCONT)
				r.sleep(50*time.Millisecond + slow)
				return c.ask(r, "give")
			})
		},
		want:   want{"l", "", "l", "e"},
		except: map[byte]want{'S': {"k", "", "k", "k"}, 'C': {"k", "", "k", "k"}},
	},
	{
		id:      "E3",
		remarks: map[byte]string{0: "at random moments"},
		fast:    true, play: cancelled, want: want{fresh: "k"},
	},
	{id: "E4", fast: true, play: closed, want: want{next: "k"}},
	{
		id:      "E5",
		remarks: map[byte]string{0: "1,000 waiters each, 200 for multi-locks, 40 for red-locks"},
		play:    crowd, want: want{fresh: "k"},
	},
	{
		id: "E6",
		play: func(r *rig, w *row, columns []byte) map[byte]*sight {
			return heldByChild(r, columns, []string{"GOMAXPROCS=1"}, func(c *child) map[string]told {
				r.happened(1)
				c.ask(r, "burn")
				return c.ask(r, "give")
			})
		},
		// It may lose what it could not renew in time, but must know it.
		want: want{"kl", "", "kl", "ke"},
	},
	{id: "E7", fast: true, play: panics, want: want{next: "k"}},
	{id: "E8", fast: true, play: churn, want: want{fresh: "k"}},
}

// heldByChild has a child process hold an object of each column while b waits for
// it, has something done to it, and looks who had it when.
func heldByChild(r *rig, columns []byte, env []string, do func(*child) map[string]told) map[byte]*sight {
	r.single()
	r.sides()
	c := r.child(columns, env...)
	before := time.Now()
	waiters := map[byte]chan taken{}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	for _, column := range columns {
		t, ch := newThing(column, r.name(column, "held"), r.b), make(chan taken, 1)
		waiters[column] = ch
		go func() {
			g, err := t.follow(ctx)
			ch <- taken{g, err, time.Now()}
		}()
	}
	redistest.Until(r, "all to wait", func() bool { return r.b.client.Stats().Waiting >= len(columns) })
	says := do(c)
	limit, over := context.WithTimeout(ctx, r.lease+recheck+2*time.Second)
	defer over()
	sights := map[byte]*sight{}
	for _, column := range columns {
		s := &sight{}
		sights[column] = s
		said, spoke := says[string(column)]
		if spoke {
			s.give = said.Gave[0]
			s.hold = 'k'
			if said.Lost != 0 || s.give == 'l' {
				s.hold = 'l'
			}
		}
		select {
		case got := <-waiters[column]:
			lookAtSuccessor(r, s, column, got, said, spoke, before)
		case <-limit.Done():
			select {
			case got := <-waiters[column]: // long ago
				lookAtSuccessor(r, s, column, got, said, spoke, before)
			default:
				s.next = 'r'
			}
		}
	}
	cancel()
	for _, column := range columns {
		_ = newThing(column, r.name(column, "held"), r.b).clean(r.ctx)
	}
	return sights
}

// lookAtSuccessor judges when b has come in: at the end of a lease that was not
// renewed any more, and not before the child had lost it or given it back.
func lookAtSuccessor(r *rig, s *sight, column byte, got taken, said told, spoke bool, before time.Time) {
	if got.err != nil {
		s.next = 'f'
		s.note("waiter: %s", clue(got.err))
		return
	}
	s.next = 'e'
	s.note("in %v after the child had it", got.at.Sub(before).Round(10*time.Millisecond))
	if spoke {
		end := said.At
		if said.Lost != 0 {
			end = min(end, said.Lost)
		}
		if s.give == 'k' {
			s.next = 'k'
			if s.took = got.at.Sub(time.Unix(0, end)); s.took < 0 {
				s.next = 'd'
			}
		}
		if s.give == 'l' {
			s.note("a stale write would have had token %d, not %d", said.Token, got.grip.token)
		}
	} else if early := r.lease - got.at.Sub(before); early > r.lease/2+slow {
		s.fault("the waiter came in %v early", early)
	}
	if column == 'X' && spoke && got.grip.token <= said.Token {
		s.fault("the token went from %d to %d", said.Token, got.grip.token)
	}
	if err := got.grip.give(r.ctx); err != nil {
		s.fault("the waiter gives it back: %v", err)
	}
}

// cancelled ends calls at any moment, a thousandth of a second or so after they have
// begun, while others come and go; nothing may be left.
func cancelled(r *rig, w *row, columns []byte) map[byte]*sight {
	r.single()
	r.sides()
	for _, p := range r.ways {
		p.Delay(500 * time.Microsecond)
	}
	const rounds = 60
	return each(columns, func(column byte, s *sight) {
		name := r.name(column, "busy")
		if err := newThing(column, name, r.a).prepare(r.ctx); err != nil {
			s.fault("%v", err)
			return
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for _, one := range []side{r.a, r.b, r.a, r.b} {
			wg.Go(func() {
				t := newThing(column, name, one)
				for range rounds {
					wait := rand.N(8 * time.Millisecond)
					ctx, cancel := context.WithTimeout(r.ctx, wait)
					begin := time.Now()
					g, err := t.take(ctx)
					cancel()
					r.happened(1)
					late := time.Since(begin) - wait
					mu.Lock()
					if late > 100*time.Millisecond+slow {
						s.fault("a call returned %v after its context", late)
					}
					switch {
					case err == nil:
						granted++
					case !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "a count is running"):
						s.fault("not the context's error: %v", err)
					}
					mu.Unlock()
					if err == nil {
						_ = g.give(r.ctx)
					}
				}
			})
		}
		wg.Wait()
		s.fresh = 'k'
		s.note("%d of %d granted", granted, 4*rounds)
		settled(r, s, column, name)
	})
}

// settled looks whether an object is free, and its keys gone.
func settled(r *rig, s *sight, column byte, name string) {
	ctx, cancel := context.WithTimeout(r.ctx, 3*time.Second)
	defer cancel()
	t := newThing(column, name, r.b)
	if column == 'C' {
		if err := t.clean(ctx); err != nil { // a count that was begun in doubt
			s.fault("removing a count: %v", err)
		}
	}
	g, err := t.follow(ctx)
	if err != nil {
		s.fault("it is not free afterwards: %v", err)
		return
	}
	if err := g.give(ctx); err != nil {
		s.fault("giving it back afterwards: %v", err)
	}
	if err := t.clean(ctx); err != nil {
		s.fault("cleaning up: %v", err)
	}
	var left []string
	for end := time.Now().Add(r.lease / 2); ; r.sleep(20 * time.Millisecond) {
		if left = r.leftovers(name); len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(left) > 0 {
		s.fault("left in Redis: %s", strings.Join(left, ", "))
	}
}

// closed closes a client that holds one object and waits for another with twenty
// callers.
func closed(r *rig, w *row, columns []byte) map[byte]*sight {
	const waiting = 20
	r.single()
	r.sides()
	c := r.side(0)
	type caller struct{ err chan error }
	callers := map[byte]caller{}
	held, busy := map[byte]*grip{}, map[byte]*grip{}
	for _, column := range columns {
		others := newThing(column, r.name(column, "busy"), r.b)
		mine := newThing(column, r.name(column, "held"), c)
		var err [4]error
		err[0], err[1] = others.prepare(r.ctx), mine.prepare(r.ctx)
		busy[column], err[2] = others.take(r.ctx)
		held[column], err[3] = mine.take(r.ctx)
		if e := errors.Join(err[:]...); e != nil {
			r.Fatal(e)
		}
		callers[column] = caller{make(chan error, waiting)}
		for range waiting {
			go func() {
				_, err := newThing(column, r.name(column, "busy"), c).follow(r.ctx)
				callers[column].err <- err
			}()
		}
	}
	redistest.Until(r, "all to wait", func() bool { return c.client.Stats().Waiting >= waiting*len(columns) })
	begin := time.Now()
	err := c.client.Close()
	took := time.Since(begin)
	for _, o := range c.others {
		_ = o.Close()
	}
	r.happened(1)
	return each(columns, func(column byte, s *sight) {
		if err != nil {
			s.fault("Close: %v", err)
		}
		if took > 2*time.Second {
			s.fault("Close took %v", took)
		}
		for range waiting {
			select {
			case err := <-callers[column].err:
				if !errors.Is(err, latchkey.ErrClosed) {
					s.fault("a waiter's error: %v", err)
				}
			case <-time.After(time.Second + slow):
				s.fault("a waiter waits on")
			}
		}
		s.next = 'k'
		name := r.name(column, "held")
		if column == 'S' || column == 'C' { // these belong to nobody, so Close leaves them
			s.note("what belongs to nobody stays")
			_ = newThing(column, name, r.b).clean(r.ctx)
			_ = newThing(column, name, r.b).prepare(r.ctx)
		}
		settled(r, s, column, name)
		if err := busy[column].give(r.ctx); err != nil {
			s.fault("%v", err)
		}
		settled(r, s, column, r.name(column, "busy"))
	})
}

// crowd has many wait for one object of each column.
func crowd(r *rig, w *row, columns []byte) map[byte]*sight {
	r.single()
	r.sides()
	return each(columns, func(column byte, s *sight) {
		many := map[byte]int{'M': 200, 'R': 40}[column]
		if many == 0 {
			many = 1000
		}
		name := r.name(column, "busy")
		t := newThing(column, name, r.a)
		if err := t.prepare(r.ctx); err != nil {
			s.fault("%v", err)
			return
		}
		g, err := t.take(r.ctx)
		if err != nil {
			s.fault("%v", err)
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, 60*time.Second)
		defer cancel()
		errs := make(chan error, many)
		for i := range many {
			one := r.a
			if i%2 == 1 {
				one = r.b
			}
			go func() {
				g, err := newThing(column, name, one).follow(ctx)
				if err == nil {
					err = g.give(r.ctx)
				}
				errs <- err
			}()
		}
		r.sleep(500 * time.Millisecond)
		r.happened(many)
		begin := time.Now()
		if err := g.give(r.ctx); err != nil {
			s.fault("%v", err)
		}
		bad := 0
		for range many {
			if err := <-errs; err != nil {
				if bad++; bad == 1 {
					s.fault("%v", err)
				}
			}
		}
		s.fresh = 'k'
		s.note("%d waiters through in %v", many, time.Since(begin).Round(10*time.Millisecond))
		if column == 'C' && time.Since(begin) > 2*time.Second {
			s.fault("the last waiter of a latch woke after %v", time.Since(begin))
		}
		settled(r, s, column, name)
	})
}

// panics has the function that is run under a lock panic.
func panics(r *rig, w *row, columns []byte) map[byte]*sight {
	r.single()
	r.sides()
	return each(columns, func(column byte, s *sight) {
		name := r.name(column, "held")
		t := newThing(column, name, r.a)
		if err := t.prepare(r.ctx); err != nil {
			s.fault("%v", err)
			return
		}
		came := func() (came bool) {
			defer func() { came = recover() != nil }()
			if t.locker != nil {
				_ = latchkey.Do(r.ctx, t.locker, func(context.Context) error { panic("under the lock") })
				return false
			}
			g, err := t.take(r.ctx)
			if err != nil {
				s.fault("%v", err)
				return false
			}
			defer func() { _ = g.give(r.ctx) }()
			panic("with the permit")
		}()
		if !came {
			s.fault("the panic was swallowed")
		}
		r.happened(1)
		begin := time.Now()
		s.next = 'k'
		settled(r, s, column, name)
		s.took = time.Since(begin)
		if s.took > slow {
			s.fault("it was free after %v only", s.took)
		}
	})
}

// churn uses many names once.
func churn(r *rig, w *row, columns []byte) map[byte]*sight {
	r.single()
	r.sides()
	const names = 300
	sights := each(columns, func(column byte, s *sight) {
		for i := range names {
			t := newThing(column, r.name(column, fmt.Sprint("name", i, "-")), r.a)
			if got, err := attempt(r, t, 5*time.Second, s); got != 'k' {
				s.fault("%v", err)
				return
			}
			if err := t.clean(r.ctx); err != nil {
				s.fault("%v", err)
			}
			r.happened(1)
		}
		s.fresh = 'k'
		s.note("%d names", names)
		// A red-lock's last member is given back behind the caller's back.
		var left []string
		for end := time.Now().Add(r.lease / 2); ; r.sleep(20 * time.Millisecond) {
			if left = r.leftovers(r.name(column, "name")); len(left) == 0 || time.Now().After(end) {
				break
			}
		}
		for _, key := range left {
			s.fault("left in Redis: %s", key)
		}
	})
	for end := time.Now().Add(2 * time.Second); ; r.sleep(20 * time.Millisecond) {
		if channels := r.admin.PubSubChannels(r.ctx, "*").Val(); len(channels) == 0 {
			break
		} else if time.Now().After(end) {
			r.Errorf("%d channels are subscribed yet", len(channels))
			break
		}
	}
	return sights
}
