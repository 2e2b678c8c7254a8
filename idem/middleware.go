package idem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

type middleware struct {
	keys *Keys
	cfg  config
	next http.Handler
}

// Middleware returns what makes a handler carry out each request once that has the
// header field Idempotency-Key. It does no I/O. It panics if c is nil or an option is
// invalid.
func Middleware(c *latchkey.Client, opts ...Option) func(http.Handler) http.Handler {
	if c == nil {
		panic("idem: Middleware: the client is nil")
	}
	cfg := newConfig()
	for _, o := range opts {
		o.apply(&cfg)
	}
	if cfg.wrong != nil {
		panic(fmt.Sprintf("idem: Middleware: %v", cfg.wrong))
	}
	keys := newKeys(c, &cfg)
	return func(next http.Handler) http.Handler { return &middleware{keys, cfg, next} }
}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.cfg.methods[r.Method] {
		m.next.ServeHTTP(w, r)
		return
	}
	key, err := keyOf(r.Header)
	switch {
	case errors.Is(err, errNoKey) && !m.cfg.required:
		m.next.ServeHTTP(w, r)
		return
	case errors.Is(err, errNoKey):
		m.refuse(w, missing, "")
		return
	case err != nil:
		m.refuse(w, invalid, err.Error())
		return
	}
	body, whole, err := m.read(r)
	var above *http.MaxBytesError
	switch {
	case errors.As(err, &above):
		m.refuse(w, tooLarge, fmt.Sprintf("The most is %d bytes.", above.Limit))
	case err != nil:
		m.refuse(w, unreadable, "")
	case !whole && m.cfg.oversize == Pass:
		m.next.ServeHTTP(w, r)
	case !whole:
		m.refuse(w, tooLarge, fmt.Sprintf("The most is %d bytes.", m.cfg.maxRequest))
	default:
		m.serve(w, r, key, fingerprint(r, body))
	}
}

// serve serves a request that has a key.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, key string, request []byte) {
	rec := newRecorder(w, r, m.cfg.maxResponse, m.cfg.headers)
	called := false
	kept, _, err := m.keys.Do(r.Context(), m.cfg.scope(r), key, request, func(ctx context.Context) (reply []byte, keep bool) {
		called = true
		m.next.ServeHTTP(rec, r.WithContext(ctx))
		res, ok := rec.result()
		if !ok || !m.cfg.statuses(res.status) || res.large && m.cfg.oversize == Pass {
			return nil, false
		}
		return res.encode(), true
	})
	switch {
	case called:
		if err != nil {
			m.warn("idem: a response was not kept", err)
		}
		rec.finish() // this has happened, kept or not
	case err == nil:
		m.replay(w, kept)
	case errors.Is(err, ErrUnderWay):
		m.refuse(w, underWay, "")
	case errors.Is(err, ErrReused):
		m.refuse(w, reused, "")
	default:
		if r.Context().Err() == nil {
			m.warn("idem: a key could not be looked up", err)
		}
		if m.cfg.outage == Pass {
			m.next.ServeHTTP(w, r)
			return
		}
		m.refuse(w, unavailable, "")
	}
}

// warn tells the logger of the client what the client of a request cannot be told.
func (m *middleware) warn(text string, err error) {
	engine.Of(m.keys.client).Logger().Warn(text, "err", err)
}

// replay sends what is kept.
func (m *middleware) replay(w http.ResponseWriter, kept []byte) {
	res, err := decode(kept)
	switch {
	case err != nil:
		m.warn("idem: a response cannot be read", err)
		m.refuse(w, unknown, "")
	case res.large:
		m.refuse(w, notKept, fmt.Sprintf("Its status was %d.", res.status))
	default:
		res.send(w)
	}
}

// read reads the body, up to the bound, and gives it back to r; whole is false if there
// is more.
func (m *middleware) read(r *http.Request) (body []byte, whole bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	if r.ContentLength > m.cfg.maxRequest {
		return nil, false, nil
	}
	body, err = io.ReadAll(io.LimitReader(r.Body, m.cfg.maxRequest+1))
	if err != nil {
		return nil, false, err
	}
	whole = int64(len(body)) <= m.cfg.maxRequest
	rest := io.Reader(bytes.NewReader(body))
	if !whole {
		rest = io.MultiReader(rest, r.Body)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{rest, r.Body}
	return body, whole, nil
}

// fingerprint returns what a request asks for: two with the same are one.
func fingerprint(r *http.Request, body []byte) []byte {
	b := lengthPrefixed(nil, r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	sum := sha256.Sum256(body)
	return append(b, sum[:]...)
}
