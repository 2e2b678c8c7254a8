package main

import (
	"fmt"
	"time"
)

// A scenario is what all sides do, each as well as it can.
type scenario struct {
	Title      string
	Goal       string // of latchkey, in words
	Growth     string // what grows: "" for the scenarios of the comparison
	Size       int    // and how large it is here
	Work       string
	Object     string
	Processes  int
	Goroutines int // of all processes together
	Names      int // 0: all share one
	Limit      int // how many may be inside at once; 0: any number
	Cluster    bool
	Link       bool // the server is a link away; see linkDelay
	Slowness   bool // the ratio is of median times, not of rates
	Hold       time.Duration
	Lease      time.Duration
	Floor      string // the side that ratios refer to; "" for none
	Sides      []string
}

var (
	setSides   = []string{"floor-set", "latchkey", "redsync", "redislock", "rueidislock", "etcd", "redisson"}
	peerSides  = []string{"floor-set", "latchkey", "redsync", "redislock", "rueidislock"}
	blpopSides = []string{"floor-blpop", "latchkey", "latchkey-off", "latchkey-fenced", "redsync", "redislock", "rueidislock", "etcd", "redisson"}
)

// comparison returns the scenarios in which sides meet.
func comparison() []scenario {
	names := func(n int, goal string) scenario {
		return scenario{
			Title: fmt.Sprintf("%d goroutines on %d names", n, n), Goal: goal,
			Work: "loop", Object: objectLock, Goroutines: n, Names: n, Floor: "floor-set", Sides: setSides,
		}
	}
	one := names(1, "≥ 1.0 × floor, 2 commands")
	one.Title = "1 goroutine, free lock"
	far := names(1, "≥ 0.99 × floor")
	far.Title, far.Link, far.Sides = "1 goroutine over a link of 0.2 ms each way", true, peerSides
	hooked := func(n int, title string) scenario {
		s := names(n, "≥ 0.95 × the same without")
		s.Title, s.Floor, s.Sides = title+", with a hook of go-redis that counts", "latchkey", []string{"latchkey", "latchkey-hook"}
		return s
	}
	wake := scenario{
		Title: "wake-up of one waiter in another client", Goal: "p50 ≤ 1.5 × floor, p99 ≤ 2 ×", Work: "wake", Object: objectLock,
		Goroutines: 2, Limit: 1, Slowness: true, Floor: "floor-blpop",
		Sides: []string{"floor-blpop", "latchkey", "redsync", "redislock", "rueidislock", "etcd"},
	}
	farWake := wake
	farWake.Title, farWake.Goal, farWake.Link = "wake-up over a link of 0.2 ms each way", "p50 ≤ 1.15 × floor", true
	farWake.Sides = []string{"floor-blpop", "latchkey", "redsync", "redislock", "rueidislock"}
	contended := func(title, object string, processes, limit int, goal string, sides ...string) scenario {
		return scenario{
			Title: title, Goal: goal, Work: "loop", Object: object, Processes: processes,
			Goroutines: 64, Limit: limit, Floor: "floor-blpop", Sides: sides,
		}
	}
	fair := []string{"floor-blpop", "latchkey", "etcd", "redisson"}
	return []scenario{
		one,
		far,
		hooked(1, "1 goroutine, free lock"),
		names(2, "≥ 1.0 × floor"),
		names(8, "≥ 1.0 × floor"),
		names(64, "≥ 1.8 × floor"),
		hooked(64, "64 goroutines on 64 names"),
		names(512, "≥ 3 × floor"),
		contended("64 goroutines on one name", objectLock, 1, 1,
			"≥ 10 × floor and ≤ 0.1 commands; fenced ≥ 1.0 × and ≤ 1.2; off ≥ 0.6 ×", blpopSides...),
		contended("4 processes of 16 goroutines on one name", objectLock, 4, 1,
			"≥ 4 × floor, nobody stuck, processes within 0.7–1.4 of the mean, p99 ≤ 60 ms; off ≥ 0.6 ×", blpopSides...),
		wake,
		farWake,
		{
			Title: "1,000 waiters on one name, held 5 s", Goal: "≤ 1 command/s, 2 connections, ≤ 3 MB, drain ≥ 0.67 × floor", Work: "wait",
			Object: objectLock, Goroutines: 1000, Limit: 1, Hold: 5 * time.Second, Floor: "floor-blpop",
			Sides: []string{"floor-blpop", "latchkey", "latchkey-off", "redsync", "redislock", "rueidislock"},
		},
		{
			Title: "100,000 waiters on one name", Goal: "works, ≤ 400 MB", Work: "wait", Object: objectLock,
			Goroutines: 100_000, Limit: 1, Hold: time.Second, Sides: []string{"latchkey", "latchkey-off"},
		},
		{
			Title: "100,000 holds renewed", Goal: "≤ 1,000 script calls per period, ≤ 3 % of one core, never later than half the lease",
			Work: "holds", Object: objectLock, Goroutines: 100_000, Names: 100_000, Lease: lease, Hold: 20 * time.Second, Sides: []string{"latchkey"},
		},
		contended("fair lock, 64 goroutines", objectFair, 1, 1, "≥ 0.6 × floor", fair...),
		contended("fair lock, 4 processes of 16 goroutines", objectFair, 4, 1, "≥ 0.6 × floor", fair...),
		{
			Title: "64 readers of one name", Goal: "≥ 0.8 × latchkey on 64 names, above", Work: "loop", Object: objectRead,
			Goroutines: 64, Floor: "floor-set", Sides: []string{"floor-set", "latchkey", "redisson"},
		},
		contended("semaphore of 8 permits, 64 goroutines", objectSemaphore, 1, 8, "≥ 1.0 × floor",
			"floor-blpop", "latchkey", "latchkey-off", "redisson"),
		{
			Title: "latch, 5,000 waiters in 4 processes", Goal: "max ≤ 100 ms", Work: "latch", Processes: 4,
			Goroutines: 5000, Sides: []string{"latchkey"},
		},
		{
			Title: "cluster of 3 masters, 512 goroutines on 512 names", Goal: "≥ 1.5 × one server, cores allowing", Work: "loop", Object: objectLock,
			Goroutines: 512, Names: 512, Cluster: true, Floor: "latchkey-one", Sides: []string{"latchkey-one", "latchkey", "floor-set"},
		},
	}
}

// growth returns the scenarios that tell how cost grows.
func growth() (all []scenario) {
	add := func(what string, sizes []int, make func(n int) scenario) {
		for _, n := range sizes {
			s := make(n)
			s.Title, s.Growth, s.Size, s.Sides = fmt.Sprintf("growth: %s, %d", what, n), what, n, []string{"latchkey"}
			all = append(all, s)
		}
	}
	wide := []int{1, 10, 100, 1000, 10_000, 100_000}
	add("waiters", wide, func(n int) scenario {
		return scenario{Work: "wait", Object: objectLock, Goroutines: n, Limit: 1, Hold: time.Second}
	})
	add("holds", wide, func(n int) scenario {
		return scenario{Work: "holds", Object: objectLock, Goroutines: n, Names: n, Lease: 9 * time.Second, Hold: 6 * time.Second}
	})
	add("queue", wide, func(n int) scenario {
		return scenario{Work: "wait", Object: objectFair, Goroutines: n, Limit: 1, Hold: time.Second}
	})
	add("processes", []int{1, 2, 4, 8, 16}, func(n int) scenario {
		return scenario{Work: "loop", Object: objectLock, Processes: n, Goroutines: 64, Limit: 1}
	})
	return all
}

// brief returns the scenario as one that is over soon.
func (s scenario) brief() scenario {
	if s.Goroutines > 1000 {
		if s.Names == s.Goroutines {
			s.Names /= 50
		}
		s.Goroutines /= 50
		s.Title += fmt.Sprintf(" (only %d)", s.Goroutines)
	}
	s.Hold = min(s.Hold, 50*time.Millisecond)
	if s.Lease > 0 {
		s.Lease, s.Hold = 3*time.Second, 1200*time.Millisecond
	}
	return s
}
