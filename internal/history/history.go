// Package history keeps what happened to the objects of a key prefix in one
// stream of Redis, and reads it.
//
// A Writer receives the events of a client in memory and writes them in
// batches, by one script each. Nothing depends on it: what Redis does not take
// is dropped and counted.
package history

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
)

// An Event is what is kept of a grant, or of the end of one.
type Event = engine.Event

const (
	// batch is the most events of one script.
	batch = 64
	// every is how long an event waits for others.
	every = 200 * time.Millisecond
	// most is how many events wait at a time. Further ones are dropped.
	most = 1024
	// bound is how long a batch may take, and how long Close takes.
	bound = time.Second
	// again is how long nothing is sent after a batch has failed.
	again = time.Second
	// Kept is how long Redis keeps a stream to which nobody writes.
	Kept = 7 * 24 * time.Hour
)

// A Writer writes the events of one client. The methods of a nil Writer do
// nothing.
type Writer struct {
	engine *engine.Engine
	key    string
	kept   int // events in the stream, about
	log    *slog.Logger

	dropped atomic.Uint64
	wake    chan struct{} // capacity 1: an event waits
	full    chan struct{} // capacity 1: a batch waits
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the goroutine has ended; made when it starts

	// mu guards the fields below.
	mu     sync.Mutex
	queue  []Event
	closed bool
}

// New returns a Writer to the stream key, which keeps about kept events. It
// starts no goroutine.
func New(key string, kept int, log *slog.Logger) *Writer {
	return &Writer{
		key: key, kept: kept, log: log,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), closing: make(chan struct{}),
	}
}

// Use sets the engine that sends. It is called once, before any other method.
func (w *Writer) Use(e *engine.Engine) { w.engine = e }

// Add queues an event and never blocks.
func (w *Writer) Add(ev Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue) == most {
		w.dropped.Add(1)
		return
	}
	if w.done == nil {
		w.done = make(chan struct{})
		go w.run()
	}
	w.queue = append(w.queue, ev)
	switch len(w.queue) {
	case 1:
		signal(w.wake)
	case batch:
		signal(w.full)
	}
}

// signal makes c ready; that it is so already does no harm.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Dropped returns how many events were dropped, or not written as far as is known.
func (w *Writer) Dropped() uint64 {
	if w == nil {
		return 0
	}
	return w.dropped.Load()
}

// Close writes what is queued, which takes a second at most, and ends the
// goroutine. What comes later is dropped.
func (w *Writer) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	first, done := !w.closed, w.done
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.closing)
	}
	if done != nil {
		<-done
	}
}

// run writes batches until Close.
func (w *Writer) run() {
	defer close(w.done)
	failed, said := false, false
	for {
		select {
		case <-w.wake:
		case <-w.closing:
			w.flush()
			return
		}
		for more := true; more; {
			if !w.collects(failed) {
				w.flush()
				return
			}
			var events []Event
			events, more = w.take()
			err := w.write(events, time.Now().Add(bound))
			failed = err != nil
			if failed && !said {
				said = true
				w.log.Warn("latchkey: events of the history are dropped", "key", w.key, "err", err)
			}
		}
	}
}

// collects waits until a batch is to be sent, after one that has failed or not. It
// returns false when the Writer is closed.
func (w *Writer) collects(failed bool) bool {
	full, d := w.full, every
	if failed {
		full, d = nil, again
	} else if w.queued() >= batch {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-full:
	case <-w.closing:
		return false
	}
	return true
}

func (w *Writer) queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// take returns the next batch, and whether there is more.
func (w *Writer) take() (events []Event, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), batch)
	events = w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return events, len(w.queue) > 0
}

// flush writes what is queued when the Writer is closed. It stops at the first failure.
func (w *Writer) flush() {
	until := time.Now().Add(bound)
	for {
		events, more := w.take()
		if w.write(events, until) != nil {
			w.dropped.Add(uint64(w.queued()))
			return
		}
		if !more {
			return
		}
	}
}

// write writes a batch. What may not have been written counts as dropped, because a
// second time would write it twice.
func (w *Writer) write(events []Event, until time.Time) error {
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	err := w.append(ctx, events)
	if err != nil {
		w.dropped.Add(uint64(len(events)))
	}
	return err
}
