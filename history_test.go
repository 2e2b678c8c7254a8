package latchkey_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/history"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/multilock"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
	"github.com/latchkey-go/latchkey/semaphore"
)

// happened returns the history of a key prefix, oldest first.
func happened(t testing.TB, rdb redis.UniversalClient, prefix string) []history.Event {
	t.Helper()
	events, _, err := history.Read(t.Context(), rdb, names.History(prefix), 10_000, time.Time{}, nil)
	require.NoError(t, err)
	slices.Reverse(events)
	return events
}

// brief returns events in few words.
func brief(events []history.Event) (all []string) {
	for _, ev := range events {
		all = append(all, strings.TrimSpace(fmt.Sprint(ev.What, " ", ev.Kind, " ", ev.Name, " ", ev.Reason)))
	}
	return all
}

// batched is longer than an event waits for others.
const batched = 250 * time.Millisecond

// Each primitive tells its history, in order and with what is known of the holder.
func TestHistoryOfEachPrimitive(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx, start := t.Context(), time.Now()
		c := newClient(t, b.Redis, latchkey.WithHistory(1000), latchkey.WithKeyPrefix("p:"))
		for _, l := range []latchkey.Locker{
			rlock.New(c, "r"), fairlock.New(c, "f"), rwlock.New(c, "rw").ReadLock(), rwlock.New(c, "rw").WriteLock(), multilock.NewGroup(c, "g", "x", "y"),
		} {
			h, err := l.Lock(ctx, latchkey.Label("ann"))
			require.NoError(t, err)
			id := h.HolderID()
			time.Sleep(time.Second)
			require.NoError(t, h.Unlock(ctx))
			time.Sleep(batched)
			events := happened(t, b.Redis, "p:")
			require.GreaterOrEqual(t, len(events), 2)
			a, r := events[len(events)-2], events[len(events)-1]
			require.Equal(t, history.Event{What: "acquired", Kind: a.Kind, Name: a.Name, Holder: id, Label: "ann", Host: host(t), PID: os.Getpid(), At: a.At}, a)
			require.Equal(t, history.Event{What: "released", Kind: a.Kind, Name: a.Name, Holder: id, Label: "ann", Host: host(t), PID: os.Getpid(), At: r.At, Held: time.Second}, r)
			require.WithinDuration(t, a.At.Add(time.Second), r.At, 5*time.Millisecond)
			require.WithinDuration(t, start, a.At, time.Minute)
		}
		permits := permitsemaphore.New(c, "ps")
		_, err := permits.TrySetPermits(ctx, 2)
		require.NoError(t, err)
		ps, err := permits.AcquireN(ctx, 2)
		require.NoError(t, err)
		require.NoError(t, permits.Release(ctx, ps[0].ID(), ps[1].ID()))
		s := semaphore.New(c, "s")
		_, err = s.TrySetPermits(ctx, 3)
		require.NoError(t, err)
		require.NoError(t, s.Acquire(ctx, 2))
		latch := countdownlatch.New(c, "l")
		_, err = latch.TrySetCount(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, latch.CountDown(ctx))
		require.NoError(t, latch.Await(ctx))
		two := multilock.New(rlock.New(c, "m1"), rlock.New(c, "m2"))
		require.NoError(t, latchkey.Do(ctx, two, func(context.Context) error { return nil }))
		outer, err := rlock.New(c, "r").Lock(ctx)
		require.NoError(t, err)
		inner, err := rlock.New(c, "r").Lock(outer.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))
		time.Sleep(batched)
		events := happened(t, b.Redis, "p:")
		got := brief(events)
		slices.Sort(got[18:20]) // the members are released at the same time
		require.Equal(t, []string{
			"acquired rlock p:r", "released rlock p:r", "acquired fairlock p:f", "released fairlock p:f",
			"acquired rwlock p:rw", "released rwlock p:rw", "acquired rwlock p:rw", "released rwlock p:rw",
			"acquired multilock p:g", "released multilock p:g",
			"acquired permitsemaphore p:ps", "acquired permitsemaphore p:ps", "released permitsemaphore p:ps", "released permitsemaphore p:ps",
			"acquired semaphore p:s", "acquired countdownlatch p:l",
			"acquired rlock p:m1", "acquired rlock p:m2", "released rlock p:m1", "released rlock p:m2",
			"acquired rlock p:r", "acquired rlock p:r", "released rlock p:r", "released rlock p:r",
		}, got)
		require.ElementsMatch(t, []string{ps[0].ID(), ps[1].ID()}, []string{events[10].Holder, events[11].Holder})
		require.Empty(t, events[14].Holder, "permits of a semaphore belong to nobody")
		require.Empty(t, events[10].Host, "there is no label")
		require.Zero(t, c.Stats().HistoryDropped)
		require.Empty(t, happened(t, b.Redis, ""), "another prefix has another history")
		require.Equal(t, history.Kept, b.Mini.TTL("{p:}:latchkey_history").Round(time.Minute))
	})
}

// A wait, a loss and a ForceUnlock are told, each by the client that knows of it.
func TestHistoryOfWaitsAndLosses(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx := t.Context()
		a, c := newClient(t, b.Client(), latchkey.WithHistory(1000)), newClient(t, b.Client(), latchkey.WithHistory(1000))
		first, err := rlock.New(a, "x").Lock(ctx)
		require.NoError(t, err)
		pause := func() { time.Sleep(10 * time.Millisecond) }
		var second *latchkey.Hold
		var all sync.WaitGroup
		all.Go(func() {
			var err error
			second, err = rlock.New(c, "x").Lock(ctx)
			require.NoError(t, err)
		})
		time.Sleep(3 * time.Second)
		require.NoError(t, first.Unlock(ctx))
		all.Wait()
		pause() // events of two clients are in the order of their time
		freed, err := rlock.New(a, "x").ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, freed)
		<-second.Lost()
		pause()
		third, err := rlock.New(c, "x").Lock(ctx)
		require.NoError(t, err)
		pause()
		freed, err = rlock.New(a, "x").ForceUnlockHolder(ctx, third.HolderID())
		require.NoError(t, err)
		require.True(t, freed)
		<-third.Lost()
		pause()
		fourth, err := rlock.New(c, "x").Lock(ctx, latchkey.Lease(time.Second))
		require.NoError(t, err)
		<-fourth.Lost()
		time.Sleep(batched)
		events := happened(t, b.Redis, "")
		slices.SortStableFunc(events, func(a, b history.Event) int { return a.At.Compare(b.At) })
		got := brief(events)
		require.ElementsMatch(t, []string{"acquired rlock x", "released rlock x", "acquired rlock x"}, got[:3])
		require.Equal(t, []string{
			"forced rlock x", "lost rlock x taken", "acquired rlock x", "forced rlock x", "lost rlock x taken", "acquired rlock x", "lost rlock x limit",
		}, got[3:])
		require.InDelta(t, 3*time.Second, max(events[1].Wait, events[2].Wait), float64(100*time.Millisecond))
		require.Empty(t, events[3].Holder)
		require.Equal(t, host(t), events[3].Host)
		require.Equal(t, third.HolderID(), events[6].Holder)
		require.InDelta(t, time.Second, events[9].Held, float64(100*time.Millisecond))
	})
}

// A lease that is renewed in its last third is late.
func TestHistoryOfLateRenewals(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		rdb := b.Client()
		c := newClient(t, rdb, latchkey.WithHistory(1000))
		h, err := rlock.New(c, "x").Lock(t.Context(), latchkey.Label("ann"))
		require.NoError(t, err)
		permits := permitsemaphore.New(c, "ps")
		require.NoError(t, permits.SetPermits(t.Context(), 1))
		p, err := permits.Acquire(t.Context())
		require.NoError(t, err)
		b.Advance(12 * time.Second) // a renewal that is in time
		b.Partition(rdb)
		b.Advance(18*time.Second + 500*time.Millisecond)
		b.Heal(rdb)
		b.Advance(5 * time.Second)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, p.Release(t.Context()))
		time.Sleep(batched)
		var late []history.Event
		for _, ev := range happened(t, b.Redis, "") {
			if ev.What == engine.Late {
				late = append(late, ev)
			}
		}
		require.Len(t, late, 2)
		holders := map[string]history.Event{}
		for _, ev := range late {
			require.GreaterOrEqual(t, ev.Wait, 10*time.Second)
			holders[ev.Holder] = ev
		}
		require.Equal(t, "ann", holders[h.HolderID()].Label)
		require.Equal(t, "x", holders[h.HolderID()].Name)
		require.Equal(t, "ps", holders[p.ID()].Name)
	})
}

// A batch is one command, of 64 events or of what happens within 200 ms.
func TestHistoryIsWrittenInBatches(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := newClient(t, b.Redis, latchkey.WithHistory(1000))
		var mu sync.Mutex
		var sent []int
		b.OnCommand(func(args []string) {
			if slices.Contains(args, "latchkey_history") {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, (len(args)-7)/12)
			}
		})
		batches := func() (all []int) {
			mu.Lock()
			defer mu.Unlock()
			all, sent = sent, nil
			return all
		}
		cycle := func(n int) {
			for range n {
				h, err := rlock.New(c, "x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Unlock(t.Context()))
			}
		}
		cycle(1)
		time.Sleep(199 * time.Millisecond)
		require.Empty(t, batches())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, []int{2, 2}, batches(), "EVALSHA, and EVAL since the server does not know the script")
		cycle(80)
		time.Sleep(time.Second)
		all, n := batches(), 0
		for _, events := range all {
			require.LessOrEqual(t, events, 64)
			n += events
		}
		require.Equal(t, 160, n)
		require.LessOrEqual(t, len(all), 4)
		time.Sleep(time.Hour)
		require.Empty(t, batches(), "nothing is sent when nothing happens")
	})
}

// While Redis is silent events are dropped and counted, callers are not delayed, and Close
// takes no more than a second for what is left.
func TestHistoryDropsWhatRedisDoesNotTake(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		var log slowWaits
		rdb := b.Client()
		w := history.New("h", 1000, slog.New(slog.NewTextHandler(&log, nil)))
		w.Use(engine.Of(newClient(t, rdb)))
		b.Partition(rdb)
		start := time.Now()
		add := func(n int) {
			for range n {
				w.Add(history.Event{What: "acquired", Kind: "rlock", Name: "x"})
			}
		}
		add(64)
		synctest.Wait() // until they are sent
		add(1500)
		require.Zero(t, time.Since(start))
		require.EqualValues(t, 1500-1024, w.Dropped())
		time.Sleep(5500 * time.Millisecond)
		require.Equal(t, 1, strings.Count(log.logged(), "level=WARN"), log.logged())
		require.EqualValues(t, 1500-1024+3*64, w.Dropped(), "one batch in two seconds")
		start = time.Now()
		w.Close()
		require.LessOrEqual(t, time.Since(start), time.Second)
		require.EqualValues(t, 1564, w.Dropped())
		w.Add(history.Event{})
		require.EqualValues(t, 1565, w.Dropped())
		w.Close()
	})
}

// Close writes what is queued, also what Close itself has ended.
func TestHistoryIsWrittenByClose(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := latchkey.New(b.Redis, latchkey.WithHistory(1000))
		for i := range 100 {
			_, err := rlock.New(c, fmt.Sprint(i)).Lock(t.Context())
			require.NoError(t, err)
		}
		start := time.Now()
		require.NoError(t, c.Close())
		require.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
		require.Len(t, happened(t, b.Redis, ""), 200)
	})
}

// On a real server the stream is capped and expires; without the option nothing is written.
func TestHistoryOnAServer(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, "xadd")
	admin := s.Client(t)
	off := newClient(t, s.Client(t))
	cycle := func(c *latchkey.Client, n int) {
		for range n {
			h, err := rlock.New(c, "x").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
		}
	}
	cycle(off, 10)
	require.Zero(t, s.CommandStats(t)["xadd"])
	require.Zero(t, admin.Exists(t.Context(), "latchkey_history").Val())

	on := newClient(t, s.Client(t), latchkey.WithHistory(10))
	cycle(on, 400)
	require.NoError(t, on.Close())
	require.Zero(t, on.Stats().HistoryDropped)
	require.EqualValues(t, 800, s.CommandStats(t)["xadd"])
	require.Less(t, admin.XLen(t.Context(), "latchkey_history").Val(), int64(200))
	require.InDelta(t, history.Kept, admin.PTTL(t.Context(), "latchkey_history").Val(), float64(time.Minute))
	require.NotEmpty(t, happened(t, admin, ""))
}

// What a server refuses is counted and logged once, and callers are not touched.
func TestHistoryIsRefused(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, "xadd")
	admin := s.Client(t)
	for _, c := range []struct {
		name   string
		refuse func(t *testing.T) (undo func())
	}{
		{"no right", func(t *testing.T) func() { return s.Deny(t, "xadd") }},
		{"another type", func(t *testing.T) func() {
			require.NoError(t, admin.Set(t.Context(), "latchkey_history", 1, 0).Err())
			return func() { admin.Del(t.Context(), "latchkey_history") }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log slowWaits
			client := newClient(t, s.Client(t), latchkey.WithHistory(1000), latchkey.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			undo := c.refuse(t)
			for range 100 {
				h, err := rlock.New(client, "x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Unlock(t.Context()))
			}
			redistest.Until(t, "a refusal", func() bool { return client.Stats().HistoryDropped > 0 })
			undo()
			require.NoError(t, client.Close())
			require.Equal(t, 1, strings.Count(log.logged(), "events of the history are dropped"), log.logged())
			n := admin.XLen(t.Context(), "latchkey_history").Val()
			require.EqualValues(t, 200, int64(client.Stats().HistoryDropped)+n)
			admin.Del(t.Context(), "latchkey_history")
		})
	}
}

// At its memory limit Redis takes events as it takes releases: the stream has its length.
func TestHistoryAtTheMemoryLimit(t *testing.T) {
	s := redistest.Start(t)
	s.Allow(t, "xadd")
	rdb := s.Client(t)
	c := newClient(t, rdb, latchkey.WithHistory(1000))
	h, err := rlock.New(c, "x").Lock(t.Context())
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, h.Unlock(t.Context()))
	_, err = rlock.New(c, "x").Lock(t.Context())
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, c.Close())
	require.Equal(t, []string{"acquired rlock x", "released rlock x"}, brief(happened(t, rdb, "")))
	require.Zero(t, c.Stats().HistoryDropped)
}

// A hand-over in memory is a release and a grant, of one holder.
func TestHistoryOfAHandOver(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		c := newClient(t, b.Redis, latchkey.WithHistory(1000))
		l := rlock.New(c, "x")
		first, err := l.Lock(t.Context())
		require.NoError(t, err)
		next := l.LockAsync(t.Context())
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		second := <-next
		require.NoError(t, second.Err)
		require.Equal(t, first.HolderID(), second.Value.HolderID(), "it was handed over")
		time.Sleep(time.Second)
		require.NoError(t, second.Value.Unlock(t.Context()))
		time.Sleep(batched)
		events := happened(t, b.Redis, "")
		ends := map[time.Duration]int{}
		for _, ev := range events {
			require.Equal(t, first.HolderID(), ev.Holder)
			if ev.What == "released" {
				ends[ev.Held.Round(time.Second)]++
			}
		}
		require.Len(t, events, 4)
		require.Equal(t, map[time.Duration]int{0: 1, time.Second: 1}, ends)
	})
}

// In a cluster the stream is in one slot.
func TestHistoryInACluster(t *testing.T) {
	cl := redistest.StartCluster(t, 3)
	for _, node := range cl.Nodes {
		node.Allow(t, "xadd")
	}
	rdb := cl.Client(t)
	c := latchkey.New(redistest.User(t, rdb), latchkey.WithHistory(1000), latchkey.WithKeyPrefix("app:"))
	for i := range 20 {
		h, err := rlock.New(c, fmt.Sprint(i)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().HistoryDropped)
	require.Len(t, happened(t, rdb, "app:"), 40)
}

// Entries that others have written are passed over, and fields without sense are empty.
func TestHistoryReadsAnything(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, b *redistest.Env) {
		ctx := t.Context()
		add := func(fields ...any) {
			require.NoError(t, b.Redis.XAdd(ctx, &redis.XAddArgs{Stream: "latchkey_history", Values: fields}).Err())
		}
		add("a", "b")
		add("event", "acquired")
		add("event", "exploded", "name", "x")
		add("event", "released", "name", "x", "at", "soon", "held", "-1", "pid", "99999999999999999999", "more", "1")
		add("event", "lost", "name", "\xff\x00<b>", "held", "9223372036854775807", "wait", "1e3", "at", "9223372036854775807")
		events := happened(t, b.Redis, "")
		require.Equal(t, []history.Event{
			{What: "released", Name: "x", At: time.UnixMilli(0)}, {What: "lost", Name: "\xff\x00<b>", At: time.UnixMilli(0)},
		}, events)

		for range 1100 {
			add("event", "acquired", "name", "y", "at", "1000000000000")
		}
		y := func(ev *history.Event) bool { return ev.Name == "x" }
		events, on, err := history.Read(ctx, b.Redis, "latchkey_history", 5, time.Time{}, y)
		require.NoError(t, err)
		require.True(t, on)
		require.Len(t, events, 1, "behind two pages")
		events, on, err = history.Read(ctx, b.Redis, "latchkey_history", 5, time.Now().Add(time.Hour), nil)
		require.NoError(t, err)
		require.True(t, on, "though nothing has happened since")
		require.Empty(t, events)
		_, on, err = history.Read(ctx, b.Redis, "other", 5, time.Now(), nil)
		require.NoError(t, err)
		require.False(t, on)
		require.NoError(t, b.Redis.Set(ctx, "text", 1, 0).Err())
		_, _, err = history.Read(ctx, b.Redis, "text", 5, time.Time{}, nil)
		require.Error(t, err)
	})
}

func TestWithHistoryTakesWhatMakesSense(t *testing.T) {
	for _, n := range []int{-1, 0, 1_000_001} {
		require.Panics(t, func() { latchkey.WithHistory(n) })
	}
}
