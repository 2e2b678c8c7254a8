package idem

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
)

// A recorder is the ResponseWriter of a handler. It has the response until it is kept,
// and sends it then; or as it is written, from the first Flush or above the bound on.
type recorder struct {
	to    http.ResponseWriter
	head  bool                   // the method is HEAD
	keeps func(name string) bool // fields that are kept

	before   http.Header // that of to, before the handler
	status   int         // 0 until WriteHeader
	header   http.Header // when WriteHeader was called
	kept     http.Header // what is kept of it
	body     []byte      // what is kept of the body
	room     int         // bytes that may still be kept
	large    bool        // there was no room, so that nothing is kept
	sending  bool        // what is written is sent
	unkept   bool        // hijacked, or another protocol
	hijacked bool
}

func newRecorder(to http.ResponseWriter, r *http.Request, most int, keeps func(string) bool) *recorder {
	return &recorder{to: to, head: r.Method == http.MethodHead, room: most, keeps: keeps, before: to.Header().Clone()}
}

// Unwrap lets http.ResponseController reach what this type does not have.
func (r *recorder) Unwrap() http.ResponseWriter { return r.to }

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.to.Header() }

// WriteHeader implements http.ResponseWriter. Informational responses are sent and not
// kept.
func (r *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("idem: the status %d is invalid", status)) // as net/http does, and before it is kept
	case status < 200 && status != http.StatusSwitchingProtocols:
		if r.status == 0 {
			r.to.WriteHeader(status)
		}
		return
	case r.status != 0 || r.hijacked:
		return
	}
	r.status, r.header, r.kept = status, r.Header().Clone(), http.Header{}
	for name, values := range r.header {
		if was, had := r.before[name]; !had || !slices.Equal(values, was) { // else it belongs to this request
			r.keep(name, values)
		}
	}
	if status == http.StatusSwitchingProtocols {
		r.unkept = true
		r.send()
	}
}

// keep keeps a field of the header.
func (r *recorder) keep(name string, values []string) {
	name = http.CanonicalHeaderKey(name)
	if ofConnection(name) || !r.keeps(name) || r.large {
		return
	}
	size := len(name)
	for _, value := range values {
		size += len(value)
	}
	if size > r.room {
		r.overflow()
		return
	}
	r.room -= size
	r.kept[name] = values
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.hijacked {
		return 0, http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if len(b) == 0 {
		return 0, nil
	}
	r.sniff(b)
	if !r.large && !r.head {
		if len(b) > r.room {
			r.overflow()
		} else {
			r.room -= len(b)
			r.body = append(r.body, b...)
		}
	}
	if !r.sending {
		return len(b), nil
	}
	if n, err := r.to.Write(b); err != nil && (r.large || r.unkept) {
		return n, err
	}
	return len(b), nil // although the client may have gone: another one gets what is kept
}

// sniff sets the content type as net/http would, so that a replay has the same.
func (r *recorder) sniff(b []byte) {
	if r.sending || len(r.body) > 0 || r.large {
		return
	}
	_, typed := r.header["Content-Type"]
	if !typed && r.header.Get("Content-Encoding") == "" && r.header.Get("Transfer-Encoding") == "" {
		r.header.Set("Content-Type", http.DetectContentType(b))
		r.keep("Content-Type", r.header["Content-Type"])
	}
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// overflow sends what there is, and keeps no more.
func (r *recorder) overflow() {
	r.large = true
	r.send()
	r.kept, r.body = nil, nil
}

// send sends what there is. From then on, what is written is sent.
func (r *recorder) send() {
	if r.sending || r.hijacked {
		return
	}
	r.sending = true
	// The header is as it was at WriteHeader. What was set later is for trailers.
	now := r.to.Header()
	later := maps.Clone(now)
	clear(now)
	maps.Copy(now, r.header)
	r.to.WriteHeader(r.status)
	if len(r.body) > 0 {
		_, _ = r.to.Write(r.body)
	}
	clear(now)
	maps.Copy(now, later)
}

// FlushError is called by http.ResponseController: what is written from now on is sent
// at once.
func (r *recorder) FlushError() error {
	if r.hijacked {
		return http.ErrHijacked
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.send()
	return http.NewResponseController(r.to).Flush()
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// Hijack implements http.Hijacker. The response is not kept.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.status != 0 {
		r.send()
	}
	conn, rw, err := http.NewResponseController(r.to).Hijack()
	if err == nil {
		r.hijacked, r.unkept = true, true
	}
	return conn, rw, err
}

// finish sends what is not sent yet. The handler has returned.
func (r *recorder) finish() {
	if r.status != 0 {
		r.send()
	}
}

// result returns the response; ok is false if it cannot be kept. The handler has
// returned.
func (r *recorder) result() (_ *response, ok bool) {
	if r.unkept {
		return nil, false
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.large {
		return &response{status: r.status, large: true}, true
	}
	return &response{status: r.status, header: r.kept, body: r.body}, true
}
