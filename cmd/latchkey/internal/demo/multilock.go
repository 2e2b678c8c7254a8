package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/stage"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/rlock"
)

var multilockScenarios = []scenario{
	{"multilock", playCrossing},
	{"multilock group", playGroup},
	{"redlock", playRed},
}

// crossed is the number of locks or values of which each worker takes some.
const crossed = 6

// several returns some of them, in random order.
func several() []int { return rand.Perm(crossed)[:2+rand.IntN(2)] }

// playSeveral makes all workers take several things at once, in turn. lock
// returns the lock of those things. Each thing has a section of its own.
func playSeveral(ctx context.Context, st *stage.Stage, lock func(worker int, things []int) latchkey.Locker) error {
	var sections [crossed]*section
	for i := range sections {
		sections[i] = newSection(st)
	}
	err := st.Compete(ctx, func(ctx context.Context, worker int) error {
		things := several()
		h, err := st.Lock(ctx, lock(worker, things))
		if err != nil {
			return err
		}
		visits := make([]*visit, len(things))
		for i, n := range things {
			visits[i] = sections[n].enter()
		}
		sections[things[0]].work()
		for i, n := range things {
			sections[n].leave(visits[i])
		}
		return h.Unlock(ctx)
	})
	for i := range sections {
		sections[i].settle()
	}
	return err
}

// playCrossing makes each worker take some of the same locks, in an order of
// its own. No worker waits for ever, and no lock has two holders.
func playCrossing(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	name := func(n int) string { return fmt.Sprintf("crossing-%d", n) }
	for n := range crossed {
		st.Used(st.Key(name(n)))
	}
	return playSeveral(ctx, st, func(worker int, things []int) latchkey.Locker {
		members := make([]latchkey.Locker, len(things))
		for i, n := range things {
			members[i] = rlock.New(cs[worker%len(cs)], name(n))
		}
		return multilock.New(members...)
	})
}

// playGroup is playCrossing with values of a group, of which a worker gets all
// or none by one command.
func playGroup(ctx context.Context, st *stage.Stage) error {
	cs, err := st.Open(st.Clients)
	if err != nil {
		return err
	}
	st.Used(st.Key("group"))
	return playSeveral(ctx, st, func(worker int, things []int) latchkey.Locker {
		values := make([]string, len(things))
		for i, n := range things {
			values[i] = fmt.Sprint(n)
		}
		return multilock.NewGroup(cs[worker%len(cs)], "group", values...)
	})
}

// redServers is the number of in-memory servers for Redlock. They are used even
// with --url, because they must be independent of each other.
const redServers = 5

// playRed shows that there is one holder at a time, by the majority of five
// servers of which two in turn are down for a while.
func playRed(ctx context.Context, st *stage.Stage) error {
	servers := make([]*miniredis.Miniredis, redServers)
	for i := range servers {
		servers[i] = miniredis.NewMiniRedis()
		servers[i].ClockTTL(true)
		if err := servers[i].StartAddr("127.0.0.1:0"); err != nil {
			return fmt.Errorf("a server in memory: %w", err)
		}
		st.OnClose(func() error {
			servers[i].Close()
			return nil
		})
	}
	locks := make([]*multilock.Lock, st.Clients)
	for i := range locks {
		locks[i] = red(st, servers)
	}
	ctx, cancel := context.WithCancel(ctx)
	down := make(chan struct{})
	go func() {
		defer close(down)
		takeDown(ctx, servers)
	}()
	s := newSection(st)
	err := st.Compete(ctx, func(ctx context.Context, worker int) error {
		h, err := st.Lock(ctx, locks[worker%len(locks)])
		if err != nil {
			return err
		}
		v := s.enter()
		s.work()
		s.leave(v)
		return h.Unlock(ctx)
	})
	cancel()
	<-down
	s.settle()
	return err
}

// red returns a lock on the majority of servers, with clients of its own.
func red(st *stage.Stage, servers []*miniredis.Miniredis) *multilock.Lock {
	members := make([]latchkey.Locker, len(servers))
	for i, m := range servers {
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
		c := latchkey.New(rdb)
		st.OnClose(func() error { return errors.Join(c.Close(), rdb.Close()) }) // before the servers close
		members[i] = rlock.New(c, "red")
	}
	return multilock.NewRed(members...)
}

// takeDown makes two servers at a time stop answering for a while, until ctx
// ends. They keep their data: a server that loses it must stay down for longer
// than a lease.
func takeDown(ctx context.Context, servers []*miniredis.Miniredis) {
	const down = 300 * time.Millisecond
	for i := 0; ; i++ {
		a, b := servers[i%redServers], servers[(i+1)%redServers]
		a.SetError("LOADING it is down")
		b.SetError("LOADING it is down")
		over := ctx.Err() != nil
		select {
		case <-time.After(down):
		case <-ctx.Done():
		}
		a.SetError("")
		b.SetError("")
		if over || ctx.Err() != nil {
			return
		}
	}
}
