package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/object"
)

// A query is what a request asks for.
type query struct {
	lang string
	key  string // identifies the rest

	Text, Kind, State, Sort string
	Page                    int
	Name                    string // of one object
}

// The states and orders of the list; "" is the first of each.
var (
	states = []string{"", "held", "waited", "idle"}
	orders = []string{"", "held", "name"}
)

const mostText = 200

// ask reads a request. What makes no sense is as if it were not there.
func ask(r *http.Request) *query {
	form := r.URL.Query()
	q := &query{
		lang: language(r).tag, Text: strings.TrimSpace(form.Get("q")), Kind: form.Get("kind"), State: form.Get("state"),
		Sort: form.Get("sort"), Name: form.Get("name"),
	}
	q.Text = strings.ToValidUTF8(q.Text[:min(len(q.Text), mostText)], "")
	if !slices.Contains(object.KindNames, q.Kind) {
		q.Kind = ""
	}
	if !slices.Contains(states, q.State) {
		q.State = ""
	}
	if !slices.Contains(orders, q.Sort) {
		q.Sort = ""
	}
	q.Page, _ = strconv.Atoi(form.Get("page"))
	q.Page = max(q.Page, 1)
	q.key = url.Values{"name": {q.Name}}.Encode() + q.Link(q.Page)
	return q
}

// Link returns the address of a page of the list, relative to it.
func (q *query) Link(page int) string {
	v := url.Values{}
	for name, value := range map[string]string{"q": q.Text, "kind": q.Kind, "state": q.State, "sort": q.Sort} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if page > 1 {
		v.Set("page", strconv.Itoa(page))
	}
	return "./?" + v.Encode()
}

// filtered reports whether the list is not all there is.
func (q *query) filtered() bool { return q.Text != "" || q.Kind != "" || q.State != "" }

// list returns the objects that q asks for, in its order.
func (q *query) list(all []*object.Object) []*object.Object {
	text := strings.ToLower(q.Text)
	var list []*object.Object
	for _, o := range all {
		if (q.Kind == "" || o.Kind == q.Kind) && inState(o, q.State) && (text == "" || mentions(o, text)) {
			list = append(list, o)
		}
	}
	order := object.ByWaiting
	switch q.Sort {
	case "held":
		order = object.ByHeld
	case "name":
		order = object.ByName
	}
	order.Sort(list)
	return list
}

func inState(o *object.Object, state string) bool {
	switch state {
	case "held":
		return len(o.Holders) > 0
	case "waited":
		return o.Waiting() > 0
	case "idle":
		return len(o.Holders) == 0 && o.Waiting() == 0
	}
	return true
}

// mentions reports whether a text in lower case is in what is known of o.
func mentions(o *object.Object, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return has(o.Name) || slices.ContainsFunc(o.Info.Holders, func(h latchkey.HolderInfo) bool { return has(h.Label) || has(h.Host) || has(h.ID) }) ||
		slices.ContainsFunc(o.Info.Waiters, func(w latchkey.WaiterInfo) bool { return has(w.Label) || has(w.Host) || has(w.ID) })
}

// language returns the language of the page that a browser wants most.
func language(r *http.Request) *lang {
	best, weight := languages[0], 0.0
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, param, _ := strings.Cut(strings.TrimSpace(part), ";")
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(param), "q="), 64)
		if err != nil {
			q = 1
		}
		primary, _, _ := strings.Cut(strings.ToLower(cmp.Or(tag, "-")), "-")
		for _, l := range languages {
			if q > weight && l.tag[:2] == primary {
				best, weight = l, q
			}
		}
	}
	return best
}
