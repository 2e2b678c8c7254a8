package ui

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/object"
)

// A picture is what a pass over Redis has found.
type picture struct {
	at              time.Time // its end
	objects         []*object.Object
	jobs, elections []string
	keys            int64 // key names read
	err             error // of the last pass; the rest is then that of the last good one
}

const (
	// passWithin bounds a pass.
	passWithin = time.Minute
	// rest is how many times as long as a pass took there is none.
	rest = 4
	// patience is how long a page waits for a pass that is under way.
	patience = 200 * time.Millisecond
)

// look returns the last picture. It begins a pass if one is due, and waits for its end,
// but not for long. The picture is nil if there is none yet.
func (h *Handler) look(ctx context.Context) *picture {
	done := h.pass()
	if done != nil {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		select {
		case <-done:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pic
}

// pass begins a pass over Redis if one is due, and returns a channel that is closed at the
// end of the present one; nil if there is none.
func (h *Handler) pass() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.passing != nil || h.closed || time.Now().Before(h.nextPass) {
		return h.passing
	}
	done := make(chan struct{})
	h.passing = done
	h.passes++
	h.wg.Go(func() {
		began := time.Now()
		pic := h.read()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.show(pic)
		h.nextPass = time.Now().Add(max(h.opts.Interval, rest*time.Since(began)))
		h.passing = nil
		close(done)
	})
	return done
}

// read makes a pass.
func (h *Handler) read() *picture {
	ctx, cancel := context.WithTimeout(h.ctx, passWithin)
	defer cancel()
	pic := new(picture)
	f := object.Beginning(h.prefix)
	f.All = h.prefix != "" // integers with the prefix of locks are ours
	if h.prefix == "" {
		f.Match = ""
	}
	var names []string
	names, pic.err = f.Find(ctx, h.rdb)
	pic.keys = f.Looked()
	if pic.err == nil {
		pic.jobs, pic.elections = f.Passed()
		for _, list := range []*[]string{&names, &pic.jobs, &pic.elections} {
			*list = h.own(*list)
		}
		pic.objects, pic.err = f.Objects(ctx, h.client, names)
	}
	pic.at = time.Now()
	return pic
}

// own returns names as the client has them, without its prefix.
func (h *Handler) own(names []string) []string {
	own := names[:0]
	for _, n := range names {
		if n, ok := strings.CutPrefix(n, h.prefix); ok && n != "" {
			own = append(own, n)
		}
	}
	return own
}

// show makes pic the picture of all pages. The caller has h.mu.
func (h *Handler) show(pic *picture) {
	if pic.err != nil && h.pic != nil {
		old := *h.pic
		old.err = pic.err
		h.pic = &old
	} else {
		h.pic = pic
	}
	if pic.err == nil {
		waited := map[string]time.Time{}
		for _, o := range pic.objects {
			if o.Waiting() > 0 {
				since, ok := h.waited[o.Name]
				if !ok {
					since = pic.at
				}
				waited[o.Name] = since
			}
		}
		h.waited = waited
	}
	h.renew()
}

// renew makes all pages be rendered again. The caller has h.mu.
func (h *Handler) renew() {
	h.version++
	clear(h.regions)
	close(h.tick)
	h.tick = make(chan struct{})
}

// waitedSince returns since when this Handler has seen somebody wait for a name; zero if
// nobody does.
func (h *Handler) waitedSince(name string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waited[name]
}

// fresh reads objects again, for a page that shows only them.
func (h *Handler) fresh(ctx context.Context, objects []*object.Object) ([]*object.Object, error) {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = o.Info.Name
	}
	all, err := object.Each(ctx, names, func(ctx context.Context, name string) (*object.Object, error) {
		info, err := h.client.Info(ctx, name)
		if err != nil {
			return nil, err
		}
		return object.New(info), nil
	})
	return slices.DeleteFunc(all, func(o *object.Object) bool { return o == nil }), err
}
