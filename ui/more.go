package ui

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/elect"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/history"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/once"
)

// mostListed is how many lines the pages Contention, Clients, Jobs and Leaders have.
const mostListed = 200

// A contention is the data of the page of that name.
type contention struct {
	state
	Rows   []row
	Charts []chart // none where there is no history
}

// contention lists what is waited for: the longest wait first.
func (h *Handler) contention(ctx context.Context, _ *query) (any, error) {
	pic := h.look(ctx)
	c := contention{state: stateOf(pic)}
	if pic == nil {
		return c, nil
	}
	var waited []*object.Object
	for _, o := range pic.objects {
		if o.Waiting() > 0 {
			waited = append(waited, o)
		}
	}
	slices.SortStableFunc(waited, func(a, b *object.Object) int {
		return cmp.Or(h.waitedSince(a.Name).Compare(h.waitedSince(b.Name)), cmp.Compare(b.Waiting(), a.Waiting()))
	})
	for _, o := range waited[:min(len(waited), mostListed)] {
		c.Rows = append(c.Rows, h.row(o))
	}
	c.Charts = h.charts(ctx)
	return c, nil
}

// A clientList is the data of the page Clients.
type clientList struct {
	state
	Rows    []*clientRow
	More    int
	History bool // whether there is one
}

type clientRow struct {
	ID, Row, Host  string
	Href           string // what has its id in the list
	Holds, Waiting int
	Version        string // from the history
	Late           int    // renewals of the last hour, from the history
}

// clients lists the clients that hold or stand in a queue.
func (h *Handler) clients(ctx context.Context, _ *query) (any, error) {
	pic := h.look(ctx)
	c := clientList{state: stateOf(pic)}
	if pic == nil {
		return c, nil
	}
	byID := map[string]*clientRow{}
	client := func(holder, host string, pid int) *clientRow {
		id := names.ClientOf(holder)
		r := byID[id]
		if r == nil {
			r = &clientRow{ID: text.Phrase(id), Row: rowID(id), Href: (&query{Text: id}).Link(1)}
			byID[id] = r
		}
		if host != "" {
			r.Host = object.Process(host, pid)
		}
		return r
	}
	for _, o := range pic.objects {
		for _, holds := range o.Info.Holders {
			if id, ok := clientHolder(holds.ID); ok {
				client(id, holds.Host, holds.PID).Holds += holds.Count
			}
		}
		for _, w := range o.Info.Waiters {
			if id, ok := clientHolder(w.ID); ok {
				client(id, w.Host, w.PID).Waiting++
			}
		}
	}
	var events []history.Event
	events, c.History = h.happened(ctx)
	now := time.Now()
	for _, ev := range events {
		r := byID[names.ClientOf(strings.TrimSuffix(ev.Holder, ":write"))]
		if r == nil {
			continue
		}
		if r.Version == "" { // the newest comes first
			r.Version = text.Phrase(ev.Version)
		}
		if ev.What == engine.Late && now.Sub(ev.At) < charted {
			r.Late++
		}
	}
	for _, r := range byID {
		c.Rows = append(c.Rows, r)
	}
	slices.SortFunc(c.Rows, func(a, b *clientRow) int {
		return cmp.Or(cmp.Compare(b.Holds+b.Waiting, a.Holds+a.Waiting), cmp.Compare(a.ID, b.ID))
	})
	c.More = max(0, len(c.Rows)-mostListed)
	c.Rows = c.Rows[:min(len(c.Rows), mostListed)]
	return c, nil
}

// clientHolder returns the id of a holder without what says how it holds. ok is false for
// the id of a permit, which names no client.
func clientHolder(id string) (holder string, ok bool) {
	holder = id
	if n := len(id) - len(":write"); n > 0 && id[n:] == ":write" {
		holder = id[:n]
	}
	return holder, names.ClientOf(holder) != holder
}

// A jobList is the data of the page Jobs.
type jobList struct {
	state
	Rows []jobRow
	More int
}

type jobRow struct {
	Job, Row, Fire, Outcome string
	Started, Took           string
	Attempt                 int
	Label, Process, Err     string
}

// runsAsked is how many runs of a job are read.
const runsAsked = 5

// jobs lists the last runs of the jobs of package once.
func (h *Handler) jobs(ctx context.Context, _ *query) (any, error) {
	pic := h.look(ctx)
	l := jobList{state: stateOf(pic)}
	if pic == nil {
		return l, nil
	}
	l.More = max(0, len(pic.jobs)-mostListed)
	jobs := pic.jobs[:min(len(pic.jobs), mostListed)]
	runs, err := object.Each(ctx, jobs, func(ctx context.Context, job string) ([]once.Run, error) {
		return once.New(h.client, job).Runs(ctx, runsAsked)
	})
	if err != nil {
		return nil, err
	}
	now, err := h.rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	for i, all := range runs {
		for n, r := range all {
			if n > 0 && r.Outcome == once.Done {
				continue // the last one, and those that are not well
			}
			took := "–"
			switch {
			case r.Outcome == once.Running:
				took = span(now.Sub(r.Started))
			case !r.Ended.IsZero():
				took = span(r.Ended.Sub(r.Started))
			}
			row := jobRow{
				Job: text.Phrase(jobs[i]), Row: rowID(jobs[i], r.Fire.String()), Fire: r.Fire.UTC().Format("2006-01-02 15:04:05Z"), Outcome: string(r.Outcome),
				Started: span(now.Sub(r.Started)), Took: took, Attempt: r.Attempt, Label: text.Phrase(r.Label), Err: text.Phrase(r.Err),
			}
			if r.Host != "" {
				row.Process = object.Process(r.Host, r.PID)
			}
			l.Rows = append(l.Rows, row)
		}
	}
	return l, nil
}

// A leaderList is the data of the page Leaders.
type leaderList struct {
	state
	Rows []leaderRow
	More int
}

type leaderRow struct {
	Election, Row, Leader, Process, Value string
	Term                                  int64
	For                                   string
}

// leaders lists the elections of package elect.
func (h *Handler) leaders(ctx context.Context, _ *query) (any, error) {
	pic := h.look(ctx)
	l := leaderList{state: stateOf(pic)}
	if pic == nil {
		return l, nil
	}
	l.More = max(0, len(pic.elections)-mostListed)
	elections := pic.elections[:min(len(pic.elections), mostListed)]
	all, err := object.Each(ctx, elections, func(ctx context.Context, name string) (elect.Leader, error) {
		leader, err := elect.New(h.client, name).Leader(ctx)
		if errors.Is(err, elect.ErrNoLeader) {
			err = nil
		}
		return leader, err
	})
	if err != nil {
		return nil, err
	}
	now, err := h.rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	for i, leads := range all {
		r := leaderRow{Election: text.Phrase(elections[i]), Row: rowID(elections[i])}
		if leads.Identity != "" {
			r.Leader, r.Value, r.Term, r.For = text.Phrase(leads.Identity), text.Phrase(leads.Value), leads.Term.Number, span(now.Sub(leads.Term.Since))
			if leads.Host != "" {
				r.Process = object.Process(leads.Host, leads.PID)
			}
		}
		l.Rows = append(l.Rows, r)
	}
	return l, nil
}
