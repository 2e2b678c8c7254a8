package otel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/latchkey-go/latchkey"
)

// scope is the name of this instrumentation.
const scope = "github.com/latchkey-go/latchkey/otel"

// An Option configures an Observer.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	classes func(kind, name string) string
}

// WithMeterProvider sets the provider of the metrics. Default: the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider sets the provider of the spans. Default: the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// Classes sets the function that maps the name of an object to the value of the
// attribute latchkey.class. The function is called for each event and must be
// fast. It must return only a few different values, because each of them makes
// a set of time series. An empty class is left out. Default: no classes.
func Classes(f func(kind, name string) string) Option { return func(c *config) { c.classes = f } }

// New returns an Observer for latchkey.WithObserver. It can serve any number of
// clients. It returns an error if a meter refuses an instrument.
func New(opts ...Option) (latchkey.Observer, error) {
	var cfg config
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.meters == nil {
		cfg.meters = otel.GetMeterProvider()
	}
	if cfg.tracers == nil {
		cfg.tracers = otel.GetTracerProvider()
	}
	w := &watcher{classes: cfg.classes, tracer: cfg.tracers.Tracer(scope), objects: map[object]*attributes{}}
	if err := w.make(cfg.meters.Meter(scope)); err != nil {
		return latchkey.Observer{}, err
	}
	return w.observer(), nil
}

// A watcher is the state behind an Observer.
type watcher struct {
	classes func(kind, name string) string
	tracer  trace.Tracer
	instruments

	// mu guards the field below.
	mu      sync.RWMutex
	objects map[object]*attributes
}

func (w *watcher) observer() latchkey.Observer {
	// Events that have no caller's context are recorded without one.
	none := context.Background()
	return latchkey.Observer{
		WaitStarted: func(ctx context.Context, kind, name string) {
			a := w.of(kind, name)
			w.waiting.Add(ctx, 1, a.object)
			w.contended.Add(ctx, 1, a.object)
		},
		Acquired:      func(ctx context.Context, a latchkey.Acquisition) { w.acquired(ctx, a, nil) },
		AcquireFailed: w.acquired,
		Released: func(kind, name string, held time.Duration) {
			a := w.of(kind, name)
			w.holds.Add(none, -1, a.object)
			w.hold.Record(none, held.Seconds(), a.object)
		},
		Renewed: func(kind, name string, lag time.Duration) {
			a := w.of(kind, name)
			w.renewals.Add(none, 1, a.with("latchkey.result", "ok"))
			w.lag.Record(none, lag.Seconds(), a.object)
		},
		RenewFailed: func(kind, name string, _ error) {
			w.renewals.Add(none, 1, w.of(kind, name).with("latchkey.result", "failed"))
		},
		Lost: func(kind, name string, held time.Duration, reason latchkey.LossReason) {
			a := w.of(kind, name)
			w.holds.Add(none, -1, a.object)
			w.hold.Record(none, held.Seconds(), a.object)
			w.lost.Add(none, 1, a.with("latchkey.reason", string(reason)))
		},
		Undone:        func(kind, name string) { w.undone.Add(none, 1, w.of(kind, name).object) },
		HintMissed:    func(kind, name string) { w.missed.Add(none, 1, w.of(kind, name).object) },
		SlowWait:      func(s latchkey.SlowWait) { w.slow.Add(none, 1, w.of(s.Kind, s.Name).object) },
		Resubscribed:  func(int) { w.resubscribed.Add(none, 1) },
		ChannelDenied: func(string, error) { w.denied.Add(none, 1) },
	}
}

// acquired records an acquire that ended with err.
func (w *watcher) acquired(ctx context.Context, a latchkey.Acquisition, err error) {
	at := w.of(a.Kind, a.Name)
	outcome := latchkey.Outcome(err)
	if a.Contended {
		w.span(ctx, a, at, outcome, err)
		w.waiting.Add(ctx, -1, at.object)
	}
	if a.Holds > 0 {
		w.holds.Add(ctx, int64(a.Holds), at.object)
	}
	w.wait.Record(ctx, a.Wait.Seconds(), at.with("latchkey.outcome", outcome))
}

// span records the span of a wait that has ended.
func (w *watcher) span(ctx context.Context, a latchkey.Acquisition, at *attributes, outcome string, err error) {
	end := time.Now()
	_, span := w.tracer.Start(ctx, "latchkey.wait", trace.WithTimestamp(end.Add(-a.Wait)))
	if span.IsRecording() {
		span.SetAttributes(at.list...)
		span.SetAttributes(attribute.String("latchkey.name", valid(a.Name)), attribute.String("latchkey.outcome", outcome))
		if outcome == "failed" {
			text := valid(err.Error())
			if text != err.Error() {
				err = errors.New(text)
			}
			span.RecordError(err)
			span.SetStatus(codes.Error, text)
		}
	}
	span.End(trace.WithTimestamp(end))
}
