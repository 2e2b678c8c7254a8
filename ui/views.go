package ui

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/force"
	"github.com/latchkey-go/latchkey/internal/inspect"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

// A view is a page. Its template is that of its name.
type view struct {
	name, title string
	data        func(h *Handler, ctx context.Context, q *query) (any, error)
	calm        bool // is not loaded again by a browser without JavaScript: somebody may be typing
}

// views are the pages by their paths.
var views = map[string]*view{
	"/{$}":  {name: "locks", title: "Locks", data: (*Handler).locks},
	"/lock": {name: "lock", title: "Locks", data: (*Handler).lock, calm: true},

	"/contention": {name: "contention", title: "Contention", data: (*Handler).contention},
	"/clients":    {name: "clients", title: "Clients", data: (*Handler).clients},
	"/jobs":       {name: "jobs", title: "Jobs", data: (*Handler).jobs},
	"/leaders":    {name: "leaders", title: "Leaders", data: (*Handler).leaders},
}

// A frame is what stands around a region.
type frame struct {
	Title, Lang string
	View        string
	Heading     string
	Region      template.HTML
	Nav         []link
	Query       *query
	Kinds       []string
	Calm        bool
}

type link struct {
	Href, Text string
	Here       bool
}

var nav = []link{
	{Href: "./", Text: "Locks"},
	{Href: "contention", Text: "Contention"},
	{Href: "clients", Text: "Clients"},
	{Href: "jobs", Text: "Jobs"},
	{Href: "leaders", Text: "Leaders"},
}

// page serves a view: as a page, or as the stream of its region.
func (h *Handler) page(v *view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept, Accept-Language")
		q := ask(r)
		if err := h.may(r, Action{Op: OpLook, Name: q.Name}); err != nil {
			h.refuse(w, q, http.StatusForbidden, err.Error())
			return
		}
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			h.stream(w, r, v, q)
			return
		}
		region, err := h.render(r.Context(), v, q)
		if err != nil {
			h.refuse(w, q, http.StatusBadGateway, err.Error())
			return
		}
		h.write(w, q, v, http.StatusOK, template.HTML(region)) //nolint:gosec // it comes from a template
	})
}

// refuse writes a page that says why there is nothing else.
func (h *Handler) refuse(w http.ResponseWriter, q *query, status int, why string) {
	var b bytes.Buffer
	_ = h.pages[q.lang].ExecuteTemplate(&b, "refused", struct{ Why, Href string }{text.Harmless(why), lockLink(q.Name)})
	h.write(w, q, &view{name: "refused", title: "Not done", calm: true}, status, template.HTML(b.String())) //nolint:gosec // it comes from a template
}

func (h *Handler) write(w http.ResponseWriter, q *query, v *view, status int, region template.HTML) {
	f := frame{Title: h.opts.Title, Lang: q.lang, View: v.name, Heading: v.title, Region: region, Query: q, Kinds: object.KindNames, Calm: v.calm}
	for _, l := range nav {
		l.Here = l.Text == v.title
		f.Nav = append(f.Nav, l)
	}
	var b bytes.Buffer
	if err := h.pages[q.lang].ExecuteTemplate(&b, "page", f); err != nil {
		h.opts.Logger.Error("latchkey/ui: a page cannot be rendered", "page", v.name, "err", err)
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// rowsPerPage is the number of objects on a page of the list.
const rowsPerPage = 50

// A list is the data of the page Locks.
type list struct {
	state
	Rows               []row
	Total, Found       int
	Held, Waited       int
	Page, Pages        int
	Previous, NextPage string
	Filtered           bool
}

// A state says how old a page is, and what is wrong.
type state struct {
	Reading bool   // there is no picture yet
	Trouble string // the last pass failed
	At      string // of the picture
}

func stateOf(pic *picture) state {
	switch {
	case pic == nil:
		return state{Reading: true}
	case pic.err != nil:
		return state{Trouble: text.Harmless(pic.err.Error()), At: pic.at.Format(time.TimeOnly)}
	}
	return state{}
}

// A row is an object in a list.
type row struct {
	ID, Name, Href string
	Kind           string
	Who            who
	More           int // further holders
	Held           string
	Lease          meter
	Waiting        int
	WaitedFor      string
	Counted        bool
	Count          int64
	Beside         string
}

// A who is a holder or a waiter.
type who struct {
	ID, Label, Process string
	Short              string // of the ID
}

// A meter is what is left of a lease.
type meter struct {
	Text      string
	Max, Left int64 // ms; Max is 0 if there is none to show
}

func (h *Handler) locks(ctx context.Context, q *query) (any, error) {
	pic := h.look(ctx)
	l := list{state: stateOf(pic), Filtered: q.filtered(), Page: 1, Pages: 1}
	if pic == nil {
		return l, nil
	}
	for _, o := range pic.objects {
		if len(o.Holders) > 0 {
			l.Held++
		}
		if o.Waiting() > 0 {
			l.Waited++
		}
	}
	found := q.list(pic.objects)
	l.Total, l.Found = len(pic.objects), len(found)
	l.Pages = max(1, (len(found)+rowsPerPage-1)/rowsPerPage)
	l.Page = min(q.Page, l.Pages)
	shown := found[(l.Page-1)*rowsPerPage : min(l.Page*rowsPerPage, len(found))]
	if pic.err == nil && time.Since(pic.at) >= h.opts.Interval/2 {
		if again, err := h.fresh(ctx, shown); err == nil {
			shown = again
		}
	}
	for _, o := range shown {
		l.Rows = append(l.Rows, h.row(o))
	}
	if l.Page > 1 {
		l.Previous = q.Link(l.Page - 1)
	}
	if l.Page < l.Pages {
		l.NextPage = q.Link(l.Page + 1)
	}
	return l, nil
}

func (h *Handler) row(o *object.Object) row {
	r := row{
		ID: rowID(o.Info.Name), Name: text.Phrase(o.Info.Name), Href: lockLink(o.Info.Name), Kind: o.Kind, Waiting: o.Waiting(),
		Counted: o.Counted(), Count: o.Count, Beside: o.Beside, Held: "-",
	}
	if n := len(o.Info.Holders); n > 0 {
		first := o.Info.Holders[0]
		r.Who, r.More = holder(first), n-1
		r.Held = since(first.Since, o.Info.At)
		r.Lease = newMeter(first.Lease)
	}
	if s := h.waitedSince(o.Name); !s.IsZero() && r.Waiting > 0 {
		r.WaitedFor = span(time.Since(s))
	}
	return r
}

func holder(h latchkey.HolderInfo) who { return whoOf(h.ID, h.Label, h.Host, h.PID) }

func whoOf(id, label, host string, pid int) who {
	w := who{ID: text.Phrase(id), Label: text.Phrase(label), Short: short(id)}
	if host != "" {
		w.Process = object.Process(host, pid)
	}
	return w
}

// short returns the beginning of a client's id, and the number.
func short(id string) string {
	client, number := id, ""
	if i := strings.IndexByte(id, ':'); i >= 0 {
		client, number = id[:i], id[i:]
	}
	if len(client) > 8 {
		client = client[:8] + "…"
	}
	return text.Phrase(client + number)
}

// rowID returns the id of an element for a text.
func rowID(parts ...string) string {
	f := fnv.New64a()
	for _, p := range parts {
		fmt.Fprintf(f, "%d:%s", len(p), p)
	}
	return "r" + hex.EncodeToString(f.Sum(nil))
}

func lockLink(name string) string { return "lock?" + url.Values{"name": {name}}.Encode() }

// span formats a duration to whole seconds, so that a page does not change more often.
func span(d time.Duration) string {
	if d = max(d, 0); d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return text.Span(d)
}

func since(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return span(now.Sub(at))
}

// leaseSteps are the lengths of leases that a meter compares with.
var leaseSteps = []time.Duration{
	30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

func newMeter(left time.Duration) meter {
	switch {
	case left < 0:
		return meter{Text: "∞"}
	case left == 0:
		return meter{Text: "0s"}
	}
	m := meter{Text: span(left), Left: left.Milliseconds(), Max: left.Milliseconds()}
	for _, step := range leaseSteps {
		if left <= step {
			m.Max = step.Milliseconds()
			break
		}
	}
	return m
}

// A one is the data of the page of one object.
type one struct {
	row
	Raw      string // its name, for an action
	Free     bool
	Token    int64
	Counts   string // what its number counts
	KeyLease meter
	Listens  int
	Holders  []holderRow
	Waiters  []waiterRow
	Advice   []advice
	Events   []eventRow
	History  bool // somebody writes one
	Actions  bool
	CanSet   bool // permits
	CanCount bool // a latch
	CanEnd   bool // a latch with a count
}

type holderRow struct {
	who
	Row     string
	Raw     string // its id, for an action
	Mode    string
	Value   string // of a multi-lock
	Count   int
	Held    string
	Lease   meter
	Waits   []waitRow
	CanFree bool
}

type waitRow struct{ Name, Href, For string }

type waiterRow struct {
	who
	Place    int
	Waits    string
	Deadline string
	Overdue  bool
}

// mostShown is how many holders or waiters a page shows.
const mostShown = 200

func (h *Handler) lock(ctx context.Context, q *query) (any, error) {
	h.look(ctx) // so that the wait for it is known
	info, err := h.client.Info(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	o := object.New(info)
	d := one{
		row: h.row(o), Raw: q.Name, Free: info.Kind == latchkey.KindFree, Token: info.Token, Listens: max(o.Listeners, 0), Actions: h.writable(),
		Counts: "value", Advice: advise(o),
	}
	if info.Kind != latchkey.KindFree && info.Lease != 0 {
		d.KeyLease = newMeter(info.Lease)
	}
	switch info.Kind {
	case latchkey.KindSemaphore, latchkey.KindPermitSemaphore:
		d.Counts, d.CanSet = "available", true
	case latchkey.KindLatch:
		d.Counts, d.CanEnd = "left", true
	case latchkey.KindCounter:
		d.CanSet, d.CanEnd = true, true
	case latchkey.KindFree:
		d.CanCount = true
	}
	waits, err := h.waitsOf(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, holds := range info.Holders[:min(len(info.Holders), mostShown)] {
		r := holderRow{
			who: holder(holds), Row: rowID(q.Name, holds.ID, holds.Value), Raw: holds.ID, Mode: holds.Mode, Value: text.Phrase(holds.Value), Count: holds.Count, Held: since(holds.Since, info.At),
			Lease: newMeter(holds.Lease), CanFree: d.Actions && force.Can(info.Kind),
		}
		for _, w := range waits[holds.ID] {
			name := strings.TrimPrefix(w.Key, h.prefix)
			r.Waits = append(r.Waits, waitRow{text.Phrase(name), lockLink(name), span(info.At.Sub(w.Since))})
		}
		d.Holders = append(d.Holders, r)
	}
	for i, w := range info.Waiters[:min(len(info.Waiters), mostShown)] {
		r := waiterRow{who: whoOf(w.ID, w.Label, w.Host, w.PID), Place: i + 1, Waits: since(w.Since, info.At)}
		if !w.Deadline.IsZero() {
			r.Deadline, r.Overdue = span(w.Deadline.Sub(info.At)), w.Deadline.Before(info.At)
		}
		d.Waiters = append(d.Waiters, r)
	}
	d.Events, d.History = h.eventsOf(ctx, q.Name, info.At)
	return d, nil
}

// waitsOf returns what the holders of o wait for, as far as their clients publish it.
func (h *Handler) waitsOf(ctx context.Context, o *object.Object) (map[string][]engine.Waited, error) {
	if o.Info.Kind == latchkey.KindPermitSemaphore || len(o.Info.Holders) == 0 {
		return nil, nil
	}
	var ids []string
	for _, holds := range o.Info.Holders[:min(len(o.Info.Holders), mostShown)] {
		ids = append(ids, holds.ID)
	}
	return inspect.Waits(ctx, h.client, o.Info.Name, ids)
}
