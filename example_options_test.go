package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/countdownlatch"
	"github.com/latchkey-go/latchkey/rlock"
)

// hold takes the lock with the options, prints its name and releases it.
func hold(client *latchkey.Client, name string, opts ...latchkey.LockOption) {
	err := latchkey.Do(context.Background(), rlock.New(client, name), func(context.Context) error {
		fmt.Println("holding", name)
		return nil
	}, opts...)
	if err != nil {
		log.Print(err)
	}
}

func ExampleNew() {
	rdb, stop := connect() // redis.NewClient, NewFailoverClient or NewClusterClient
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close() // gives back what is still held
	hold(client, "orders:42")
	// Output: holding orders:42
}

// Two waits: for a lock that is held, and for one that is free.
func ExampleWait() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()
	lock := rlock.New(client, "orders:42")

	held, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = lock.TryLock(ctx, latchkey.Wait(20*time.Millisecond))
	fmt.Println("taken:", errors.Is(err, latchkey.ErrNotAcquired))
	if err := held.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	hold(client, "orders:42", latchkey.Wait(time.Minute)) // the work may take longer than a minute
	// Output:
	// taken: true
	// holding orders:42
}

// A hold with a Lease ends with it, however long the work takes.
func ExampleLease() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	held, err := rlock.New(client, "orders:42").Lock(context.Background(), latchkey.Lease(50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-held.Context().Done()
	fmt.Println(context.Cause(held.Context()))
	// Output: lease lost
}

// A hold is renewed, but not without a limit.
func ExampleMaxHold() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	err := latchkey.Do(context.Background(), rlock.New(client, "import"), func(ctx context.Context) error {
		<-ctx.Done() // work that hangs
		return nil
	}, latchkey.MaxHold(50*time.Millisecond))
	fmt.Println("lost:", errors.Is(err, latchkey.ErrLeaseLost))
	// Output: lost: true
}

// A short job runs once a minute on machines whose clocks differ.
func ExampleHoldAtLeast() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()

	for _, machine := range []string{"a", "b"} {
		err := latchkey.Do(context.Background(), rlock.New(client, "every-minute"), func(context.Context) error {
			fmt.Println(machine, "does it")
			return nil
		}, latchkey.Wait(0), latchkey.HoldAtLeast(50*time.Second))
		if errors.Is(err, latchkey.ErrNotAcquired) {
			fmt.Println(machine, "finds it done")
		}
	}
	// Output:
	// a does it
	// b finds it done
}

// A machine that finds the job done asks who did it.
func ExampleHoldAtLeast_label() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithTakenDetails())
	defer client.Close()

	for _, machine := range []string{"a", "b"} {
		err := latchkey.Do(context.Background(), rlock.New(client, "every-minute"), func(context.Context) error {
			return nil
		}, latchkey.Wait(0), latchkey.HoldAtLeast(50*time.Second), latchkey.Label("the job of machine "+machine))
		var taken *latchkey.TakenError
		if errors.As(err, &taken) && len(taken.Holders) > 0 {
			last := taken.Holders[0]
			fmt.Printf("%s: done by %s, ended: %t\n", machine, last.Label, !last.Ended.IsZero())
		}
	}
	// Output: b: done by the job of machine a, ended: true
}

func ExampleLabel() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	ctx := context.Background()

	err := latchkey.Do(ctx, rlock.New(client, "orders:42"), func(ctx context.Context) error {
		info, err := client.Info(ctx, "orders:42")
		for _, h := range info.Holders {
			fmt.Println("held by", h.Label)
		}
		return err
	}, latchkey.Label("the shipping worker"))
	if err != nil {
		log.Print(err)
	}
	// Output: held by the shipping worker
}

// A holder is passed on as a value.
func ExampleHolderFrom() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	lock := rlock.New(client, "orders:42")

	ctx := latchkey.WithHolder(context.Background())
	held, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	me, ok := latchkey.HolderFrom(ctx)
	fmt.Println(ok, me == held.Holder())
	if err := lock.Unlock(ctx); err != nil {
		log.Print(err)
	}
	// Output: true true
}

func ExampleOutcome() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	lock := rlock.New(client, "orders:42")

	for range 2 {
		_, err := lock.TryLock(context.Background())
		fmt.Println(latchkey.Outcome(err))
	}
	// Output:
	// acquired
	// refused
}

// The holders of this client have a readable name.
func ExampleWithID() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithID("worker-7")) // no other client may have it
	defer client.Close()
	fmt.Println(client.ID())
	hold(client, "orders:42")
	// Output:
	// worker-7
	// holding orders:42
}

// The prefix separates the names of one program from those of others.
func ExampleWithKeyPrefix() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithKeyPrefix("shop:"))
	defer client.Close()

	ctx := context.Background()
	err := latchkey.Do(ctx, rlock.New(client, "orders:42"), func(ctx context.Context) error {
		fmt.Println(rdb.Keys(ctx, "*").Val())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output: [shop:orders:42]
}

// The locks of a dead worker are free after ten seconds. Renewals are sent
// about every three seconds.
func ExampleWithWatchdogTimeout() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithWatchdogTimeout(10*time.Second))
	defer client.Close()

	lock := rlock.New(client, "orders:42")
	err := latchkey.Do(context.Background(), lock, func(ctx context.Context) error {
		left, err := lock.TTL(ctx)
		fmt.Println("at most ten seconds left:", left <= 10*time.Second)
		return err
	})
	if err != nil {
		log.Print(err)
	}
	// Output: at most ten seconds left: true
}

// An Unlock without a reply from Redis gives up after a second.
func ExampleWithUnlockTimeout() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithUnlockTimeout(time.Second))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// A TryLock without a reply returns after half a second.
func ExampleWithAnswerTimeout() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithAnswerTimeout(500*time.Millisecond))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// A call that has waited for ten seconds is logged, with who has the lock.
func ExampleWithSlowWait() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithSlowWait(10*time.Second), latchkey.WithLogger(slog.Default()))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// A Hold that nobody can unlock any more is logged, with the place where it was acquired,
// and unlocked.
func ExampleWithLeakDetection() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithLeakDetection(latchkey.LeakRelease))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// `latchkey explain orders:42` says what this program waits for while it holds that.
func ExampleWithWaitGraph() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithWaitGraph())
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// Redis keeps about the last 10,000 events: what was acquired, released and lost, by whom and for how long.
func ExampleWithHistory() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithHistory(10_000))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// A refusal says who has the lock.
func ExampleWithTakenDetails() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithTakenDetails())
	defer client.Close()
	ctx := context.Background()
	lock := rlock.New(client, "orders:42")
	hold, err := lock.Lock(ctx, latchkey.Label("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = hold.Unlock(ctx) }()

	_, err = lock.TryLock(ctx)
	var taken *latchkey.TakenError
	if errors.As(err, &taken) {
		fmt.Println(taken.Name, "is held by", taken.Holders[0].Label)
	}
	// Output: orders:42 is held by billing
}

// A waiter without a wake-up asks again after a second.
func ExampleWithRecheck() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithRecheck(time.Second))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// Waiters poll, because nobody may subscribe.
func ExampleWithPubSub() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithPubSub(latchkey.Polling))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// Every Unlock goes to Redis, so that other processes have as many turns as
// this one.
func ExampleWithHandOver() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithHandOver(0))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// Every Unlock leaves the lock free for all, as Redisson's does.
func ExampleWithDirectGrants() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithDirectGrants(false))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// A grant counts when a replica has confirmed it. This server has no replica,
// so nothing is granted.
func ExampleWithReplicaAck() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithReplicaAck(1, 50*time.Millisecond))
	defer client.Close()

	_, err := rlock.New(client, "orders:42").TryLock(context.Background())
	fmt.Println("too few replicas:", errors.Is(err, latchkey.ErrNotReplicated))
	// Output: too few replicas: true
}

// The logger receives what no error can report.
func ExampleWithLogger() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	defer client.Close()
	hold(client, "orders:42")
	// Output: holding orders:42
}

// The Observer prints the events.
func ExampleWithObserver() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb, latchkey.WithObserver(latchkey.Observer{
		Acquired: func(_ context.Context, a latchkey.Acquisition) { fmt.Println("acquired", a.Kind, a.Name) },
		Released: func(kind, name string, _ time.Duration) { fmt.Println("released", kind, name) },
	}))
	defer client.Close()
	hold(client, "orders:42")
	// Output:
	// acquired rlock orders:42
	// holding orders:42
	// released rlock orders:42
}

// Async calls deliver one Result.
func ExampleResult() {
	rdb, stop := connect()
	defer stop()
	client := latchkey.New(rdb)
	defer client.Close()
	latch := countdownlatch.New(client, "ready")

	if r := <-rlock.New(client, "orders:42").LockAsync(context.Background()); r.Err == nil {
		fmt.Println("holding", r.Value.Name())
	}
	fmt.Println(<-latch.AwaitAsync(context.Background())) // nothing to wait for
	// Output:
	// holding orders:42
	// <nil>
}
