package prom

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey-go/latchkey"
)

// A Collector collects the metrics of clients. Make one with New.
type Collector struct {
	classes func(kind, name string) string
	metrics metrics

	// mu guards the field below.
	mu     sync.RWMutex
	series map[object]*series
}

var _ prometheus.Collector = (*Collector)(nil)

// An Option configures a Collector.
type Option func(*config)

type config struct {
	classes    func(kind, name string) string
	wait, hold []float64
}

// Classes sets the function that maps the name of an object to the value of the
// label class. The function is called for each event and must be fast. It must
// return only a few different values, because each of them makes a set of time
// series. Default: class is always empty.
func Classes(f func(kind, name string) string) Option {
	return func(c *config) {
		if f == nil {
			panic("prom: Classes: the function is nil")
		}
		c.classes = f
	}
}

// WaitBuckets sets the upper bounds of the buckets of latchkey_wait_seconds, in
// seconds, in increasing order. Default: 1 ms to 1 min.
func WaitBuckets(bounds ...float64) Option {
	growing("WaitBuckets", bounds)
	return func(c *config) { c.wait = bounds }
}

// HoldBuckets is WaitBuckets for latchkey_hold_seconds. Default: 1 ms to 1 h.
func HoldBuckets(bounds ...float64) Option {
	growing("HoldBuckets", bounds)
	return func(c *config) { c.hold = bounds }
}

// growing panics if bounds do not increase. The Prometheus client would panic
// only at the first event.
func growing(option string, bounds []float64) {
	for i := 1; i < len(bounds); i++ {
		if !(bounds[i-1] < bounds[i]) { // false for NaN too
			panic(fmt.Sprintf("prom: %s: %v does not grow behind %v", option, bounds[i], bounds[i-1]))
		}
	}
}

// New returns a Collector whose metrics are 0. It panics if an option is
// invalid.
func New(opts ...Option) *Collector {
	cfg := config{
		classes: func(string, string) string { return "" },
		wait:    []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		hold:    []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600},
	}
	for _, o := range opts {
		o(&cfg)
	}
	return &Collector{classes: cfg.classes, metrics: newMetrics(cfg), series: map[object]*series{}}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics.all() {
		m.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.metrics.all() {
		m.Collect(ch)
	}
}

// Observer returns an Observer for latchkey.WithObserver.
func (c *Collector) Observer() latchkey.Observer {
	m := &c.metrics
	return latchkey.Observer{
		WaitStarted: func(_ context.Context, kind, name string) {
			s := c.of(kind, name)
			s.waiting.Inc()
			s.contended.Inc()
		},
		Acquired: func(_ context.Context, a latchkey.Acquisition) {
			s := c.of(a.Kind, a.Name)
			s.ended(a)
			s.holds.Add(float64(a.Holds))
			s.acquired.Observe(a.Wait.Seconds())
		},
		AcquireFailed: func(_ context.Context, a latchkey.Acquisition, err error) {
			s := c.of(a.Kind, a.Name)
			s.ended(a)
			m.wait.WithLabelValues(s.kind, s.class, latchkey.Outcome(err)).Observe(a.Wait.Seconds())
		},
		Released: func(kind, name string, held time.Duration) {
			c.of(kind, name).released(held)
		},
		Renewed: func(kind, name string, lag time.Duration) {
			s := c.of(kind, name)
			s.renewed.Inc()
			s.lag.Observe(lag.Seconds())
		},
		RenewFailed: func(kind, name string, _ error) {
			s := c.of(kind, name)
			m.renewals.WithLabelValues(s.kind, s.class, "failed").Inc()
		},
		Lost: func(kind, name string, held time.Duration, reason latchkey.LossReason) {
			s := c.of(kind, name)
			s.released(held)
			m.lost.WithLabelValues(s.kind, s.class, string(reason)).Inc()
		},
		Undone:        func(kind, name string) { c.of(kind, name).undone.Inc() },
		HintMissed:    func(kind, name string) { c.of(kind, name).missed.Inc() },
		SlowWait:      func(w latchkey.SlowWait) { c.of(w.Kind, w.Name).slow.Inc() },
		Resubscribed:  func(int) { m.resubscribed.Inc() },
		ChannelDenied: func(string, error) { m.denied.Inc() },
	}
}

// An object is the key of its series.
type object struct{ kind, class string }

// A series is the set of series for one kind and class.
type series struct {
	object
	acquired, hold, lag                      prometheus.Observer
	holds, waiting                           prometheus.Gauge
	contended, renewed, undone, missed, slow prometheus.Counter
}

// of returns the series for an object with that kind and name.
func (c *Collector) of(kind, name string) *series {
	// A name may consist of any bytes, and a class may be part of it; a label
	// must be UTF-8.
	o := object{kind, strings.ToValidUTF8(c.classes(kind, name), "\uFFFD")}
	c.mu.RLock()
	s := c.series[o]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s = c.series[o]; s == nil {
		s = c.metrics.series(o)
		c.series[o] = s
	}
	return s
}

// ended records the end of a wait.
func (s *series) ended(a latchkey.Acquisition) {
	if a.Contended {
		s.waiting.Dec()
	}
}

// released records the end of a hold.
func (s *series) released(held time.Duration) {
	s.holds.Dec()
	s.hold.Observe(held.Seconds())
}
