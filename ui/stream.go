package ui

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	heartbeat   = 15 * time.Second
	writeWithin = 10 * time.Second // a browser that takes nothing for so long is left
	mostRegions = 512              // kept at a time
)

// A region is the part of a page that changes, as all browsers see it that look at the
// same page.
type region struct {
	once sync.Once
	made time.Time
	html []byte
	err  error
}

// render returns the region of a page, rendered once for all who look.
func (h *Handler) render(ctx context.Context, v *view, q *query) ([]byte, error) {
	key := q.lang + " " + v.name + "?" + q.key
	h.mu.Lock()
	r := h.regions[key]
	if r == nil || !r.made.IsZero() && time.Since(r.made) >= h.opts.Interval {
		r = new(region)
		if len(h.regions) < mostRegions {
			h.regions[key] = r
		}
	}
	h.mu.Unlock()
	r.once.Do(func() {
		// Whoever asked first may leave; the others wait for the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
		defer cancel()
		defer context.AfterFunc(h.ctx, cancel)()
		var b bytes.Buffer
		err := errPanicked
		defer func() {
			h.mu.Lock()
			r.html, r.err, r.made = b.Bytes(), err, time.Now()
			h.mu.Unlock()
		}()
		err = h.draw(ctx, &b, v, q)
	})
	return r.html, r.err
}

// errPanicked is the error of a region whose function panicked. Those who have waited for
// it get it; the panic ends the request of the first.
var errPanicked = errors.New("ui: the page could not be rendered")

// draw writes the region of a page.
func (h *Handler) draw(ctx context.Context, b *bytes.Buffer, v *view, q *query) error {
	data, err := v.data(h, ctx, q)
	if err != nil {
		return err
	}
	return h.pages[q.lang].ExecuteTemplate(b, v.name, data)
}

// stream sends a region whenever it has changed, until the browser leaves or the Handler
// is closed.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, v *view, q *query) {
	if !h.follow() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many browsers follow already", http.StatusServiceUnavailable)
		return
	}
	defer h.unfollow()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	ctl := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = ctl.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err := w.Write(text)
		return err == nil && ctl.Flush() == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var last []byte
	for {
		h.mu.Lock()
		tick := h.tick
		h.mu.Unlock()
		html, err := h.render(ctx, v, q)
		if err == nil && !bytes.Equal(html, last) {
			last = html
			if !send(event(html)) {
				return
			}
		}
		select {
		case <-tick:
		case <-beat.C:
			if !send([]byte(": here\n\n")) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// event returns a server-sent event.
func event(html []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(html) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// follow counts a stream and makes the pages tick while there are any. It returns false if
// there are too many.
func (h *Handler) follow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.streams >= h.opts.MostStreams {
		return false
	}
	h.streams++
	if !h.ticking {
		h.ticking = true
		h.wg.Go(h.ticks)
	}
	return true
}

func (h *Handler) unfollow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
}

// ticks makes all pages be rendered again at each interval, and begins the passes that are
// due, while there are streams.
func (h *Handler) ticks() {
	t := time.NewTicker(h.opts.Interval)
	defer t.Stop()
	h.pass()
	for {
		select {
		case <-t.C:
		case <-h.ctx.Done():
		}
		h.mu.Lock()
		if h.streams == 0 || h.closed {
			h.ticking = false
			h.mu.Unlock()
			return
		}
		before := h.passes
		h.mu.Unlock()
		h.pass()
		h.mu.Lock()
		if h.passes == before { // the end of a pass renews by itself
			h.renew()
		}
		h.mu.Unlock()
	}
}
