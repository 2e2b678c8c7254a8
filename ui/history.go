package ui

import (
	"context"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/history"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/text"
)

const (
	// mostRecent is how many events are read, of all objects.
	mostRecent = 5000
	// mostEvents is how many events a page of one object shows.
	mostEvents = 20
	// slots is how many bars a chart has, each for a part of the last hour.
	slots   = 30
	charted = time.Hour
)

// recent has the newest events, which all pages share.
type recent struct {
	// mu guards the fields below, and is held while they are read.
	mu     sync.Mutex
	at     time.Time
	events []history.Event // newest first
	on     bool
}

// happened returns the newest events, newest first. on is false where there is no history,
// or it may not be read.
func (h *Handler) happened(ctx context.Context) (events []history.Event, on bool) {
	r := &h.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= h.opts.Interval {
		got, on, err := history.Read(ctx, h.rdb, names.History(h.prefix), mostRecent, time.Time{}, nil)
		if err != nil && ctx.Err() != nil {
			return r.events, r.on // another page reads it
		}
		r.at, r.events, r.on = time.Now(), got, on && err == nil
	}
	return r.events, r.on
}

// An eventRow is an event on the page of one object.
type eventRow struct {
	who
	What, Reason, Ago, Wait, Held string
}

// eventsOf returns the last events of the object with the given name.
func (h *Handler) eventsOf(ctx context.Context, name string, now time.Time) (rows []eventRow, on bool) {
	events, on := h.happened(ctx)
	for _, ev := range events {
		if ev.Name != h.prefix+name {
			continue
		}
		r := eventRow{who: whoOf(ev.Holder, ev.Label, ev.Host, ev.PID), What: ev.What, Reason: text.Phrase(ev.Reason), Ago: span(now.Sub(ev.At))}
		switch ev.What {
		case engine.Acquired, engine.Late:
			r.Wait = text.Short(ev.Wait)
		case engine.Released, engine.Lost:
			r.Held = text.Short(ev.Held)
		}
		if rows = append(rows, r); len(rows) == mostEvents {
			break
		}
	}
	return rows, on
}

// A chart has what happened in the last hour: the longest of each part of it.
type chart struct {
	Title   string
	Longest string
	Count   int // events
	Bars    []bar
}

// A bar is a part of a chart, of a box of 300 by 40.
type bar struct{ X, Y, Height int }

// charts returns the charts of waits and holds, nil if there is no history.
func (h *Handler) charts(ctx context.Context) []chart {
	events, on := h.happened(ctx)
	if !on {
		return nil
	}
	now := time.Now()
	if at, err := h.rdb.Time(ctx).Result(); err == nil {
		now = at // events have the server's time
	}
	var waits, holds [slots]time.Duration
	var acquired, ended int
	for _, ev := range events {
		slot := slots - 1 - int(now.Sub(ev.At)/(charted/slots))
		if slot < 0 {
			continue
		}
		slot = min(slot, slots-1) // clocks differ
		switch ev.What {
		case engine.Acquired:
			acquired++
			waits[slot] = max(waits[slot], ev.Wait)
		case engine.Released, engine.Lost:
			ended++
			holds[slot] = max(holds[slot], ev.Held)
		}
	}
	return []chart{newChart("Longest wait", waits, acquired), newChart("Longest hold", holds, ended)}
}

func newChart(title string, of [slots]time.Duration, n int) chart {
	const width, height = 300 / slots, 40
	var longest time.Duration
	for _, d := range of {
		longest = max(longest, d)
	}
	c := chart{Title: title, Longest: text.Short(longest), Count: n}
	for i, d := range of {
		if d > 0 {
			tall := max(int(float64(d)/float64(longest)*height), 1)
			c.Bars = append(c.Bars, bar{X: i * width, Y: height - tall, Height: tall})
		}
	}
	return c
}
