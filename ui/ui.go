package ui

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/engine"
)

// Options configure a Handler. The zero Options show everything and change nothing.
type Options struct {
	// Title stands above each page: which Redis it is.
	Title string
	// ReadOnly refuses all actions, whatever Authorize says.
	ReadOnly bool
	// Authorize decides whether the sender of a request may do a. It is asked for every
	// page, with the Op OpLook, and for every action. Its error is a refusal, whose text
	// the user sees. Without Authorize everybody may look, and nobody may change anything.
	Authorize func(r *http.Request, a Action) error
	// Audit is told of each action that was allowed, after it, with its error. Default: a
	// line of Logger.
	Audit func(r *http.Request, a Action, err error)
	// Logger is for Audit, and for what no page can report. Default: slog.Default().
	Logger *slog.Logger
	// Interval is the least time between two looks at Redis, at least 100 ms. Default:
	// 500 ms.
	Interval time.Duration
	// MostStreams is how many browsers can follow a page at a time. More see the page,
	// and load it again by themselves. Default: 256.
	MostStreams int
}

const (
	leastInterval   = 100 * time.Millisecond
	defaultInterval = 500 * time.Millisecond
	defaultStreams  = 256
)

// A Handler serves the pages. It is safe for concurrent use. Use http.StripPrefix to serve
// it below a path.
type Handler struct {
	client *latchkey.Client
	rdb    redis.UniversalClient
	prefix string // of the keys of client
	opts   Options
	mux    *http.ServeMux
	pages  map[string]*template.Template // by language
	cross  *http.CrossOriginProtection

	ctx  context.Context // until Close
	stop context.CancelFunc
	wg   sync.WaitGroup // of goroutines and streams

	recent recent

	mu       sync.Mutex
	closed   bool
	pic      *picture
	passing  chan struct{} // closed at the end of the present pass; nil if there is none
	passes   int           // that have begun
	nextPass time.Time
	waited   map[string]time.Time // since when a name is seen to be waited for
	streams  int
	ticking  bool
	tick     chan struct{} // closed at the next tick
	version  int           // of what regions show
	regions  map[string]*region
}

//go:embed static pages
var files embed.FS

// New returns a Handler that shows what client can reach. It panics if client is nil, and
// does no I/O. Options that make no sense are an error.
func New(client *latchkey.Client, opts Options) (*Handler, error) {
	e := engine.Of(client)
	switch rdb := e.Redis().(type) {
	case *redis.Client, *redis.ClusterClient:
	default:
		return nil, fmt.Errorf("ui: a %T cannot be read: it must be a *redis.Client or a *redis.ClusterClient", rdb)
	}
	switch {
	case opts.Interval != 0 && opts.Interval < leastInterval:
		return nil, fmt.Errorf("ui: Interval of %v: the least is %v", opts.Interval, leastInterval)
	case opts.MostStreams < 0:
		return nil, fmt.Errorf("ui: MostStreams of %d: the least is 1", opts.MostStreams)
	}
	opts.Interval = cmp.Or(opts.Interval, defaultInterval)
	opts.MostStreams = cmp.Or(opts.MostStreams, defaultStreams)
	opts.Title = cmp.Or(opts.Title, "latchkey")
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	h := &Handler{
		client: client, rdb: e.Redis(), prefix: engine.Mapped(client, ""), opts: opts, cross: http.NewCrossOriginProtection(),
		waited: map[string]time.Time{}, tick: make(chan struct{}), regions: map[string]*region{}, pages: map[string]*template.Template{},
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	for _, lang := range languages {
		t, err := template.New("").Funcs(template.FuncMap{"t": lang.text}).ParseFS(files, "pages/*.html")
		if err != nil {
			return nil, fmt.Errorf("ui: %w", err)
		}
		h.pages[lang.tag] = t
	}
	h.mux = http.NewServeMux()
	static, _ := fs.Sub(files, "static")
	h.mux.Handle("GET /static/", http.StripPrefix("/static/", cached(http.FileServerFS(static))))
	h.mux.HandleFunc("GET /healthz", h.healthz)
	h.mux.HandleFunc("POST /action", h.action)
	for path, v := range views {
		h.mux.Handle("GET "+path, h.page(v))
	}
	return h, nil
}

// Close ends the streams and what is being read, and waits for that. Pages are then
// refused. It does not close the client.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.wg.Wait()
	return nil
}

// enter counts a request or a goroutine that Close waits for. It returns false if the
// Handler is closed.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.wg.Add(1)
	}
	return !h.closed
}

// policy is the Content-Security-Policy of every answer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin") // with less, browsers hide the origin of a POST
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if !h.enter() {
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	}
	defer h.wg.Done()
	if r.URL.Path == "" { // below http.StripPrefix
		r2 := *r
		u := *r.URL
		u.Path, r2.URL = "/", &u
		r = &r2
	}
	h.mux.ServeHTTP(w, r)
}

func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		next.ServeHTTP(w, r)
	})
}

// healthz says whether the page is served and Redis answers.
func (h *Handler) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := h.rdb.Ping(ctx).Err(); err != nil {
		if _, ok := errors.AsType[redis.Error](err); !ok { // a server that refuses has answered
			http.Error(w, "Redis does not answer", http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// may asks whether the sender of r may do a.
func (h *Handler) may(r *http.Request, a Action) error {
	switch {
	case a.Op == OpLook && h.opts.Authorize == nil:
		return nil
	case a.Op != OpLook && (h.opts.ReadOnly || h.opts.Authorize == nil):
		return errReadOnly
	}
	return h.opts.Authorize(r, a)
}

// writable reports whether actions are offered.
func (h *Handler) writable() bool { return !h.opts.ReadOnly && h.opts.Authorize != nil }

var errReadOnly = errors.New("this page is read-only")
