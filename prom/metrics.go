package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey-go/latchkey"
)

// metrics are the metrics of a Collector.
type metrics struct {
	wait, hold, lag                                 *prometheus.HistogramVec
	holds, waiting                                  *prometheus.GaugeVec
	contended, lost, renewals, undone, missed, slow *prometheus.CounterVec
	resubscribed, denied                            prometheus.Counter
}

func newMetrics(cfg config) metrics {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Namespace: "latchkey", Name: name, Help: help, Buckets: buckets}, byObject(labels))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "latchkey", Name: name, Help: help}, byObject(nil))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "latchkey", Name: name, Help: help}, byObject(labels))
	}
	total := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "latchkey", Name: name, Help: help})
	}
	return metrics{
		wait:         histogram("wait_seconds", "Time from the call of an acquire to its end.", cfg.wait, "outcome"),
		hold:         histogram("hold_seconds", "Time from the grant of a hold to its release or loss.", cfg.hold),
		lag:          histogram("renewal_lag_seconds", "How late a renewal was sent.", []float64{.001, .01, .1, 1, 10}),
		holds:        gauge("holds", "Holds and permits of this process."),
		waiting:      gauge("waiting", "Calls of this process that wait."),
		contended:    counter("contended_total", "Acquires that had to wait."),
		lost:         counter("lost_total", "Holds that ended without Unlock.", "reason"),
		renewals:     counter("renewals_total", "Renewals of leases.", "result"),
		undone:       counter("undone_total", "Failed acquires that had been granted, and were taken back."),
		missed:       counter("missed_wakeups_total", "Waiters that a recheck served and no message."),
		slow:         counter("slow_waits_total", "Reports of calls that wait for long."),
		resubscribed: total("resubscribed_total", "Connections for wake-ups that were replaced."),
		denied:       total("channels_denied_total", "Redis channels that may not be subscribed to."),
	}
}

// byObject returns the labels of a metric for each kind and class, and more.
func byObject(more []string) []string { return append([]string{"kind", "class"}, more...) }

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.wait, m.hold, m.lag, m.holds, m.waiting,
		m.contended, m.lost, m.renewals, m.undone, m.missed, m.slow, m.resubscribed, m.denied,
	}
}

// series creates the series for o, which start at 0.
func (m *metrics) series(o object) *series {
	for _, reason := range []latchkey.LossReason{latchkey.LossExpired, latchkey.LossTaken, latchkey.LossLimit} {
		m.lost.WithLabelValues(o.kind, o.class, string(reason))
	}
	m.renewals.WithLabelValues(o.kind, o.class, "failed")
	return &series{
		object:    o,
		acquired:  m.wait.WithLabelValues(o.kind, o.class, latchkey.Outcome(nil)),
		hold:      m.hold.WithLabelValues(o.kind, o.class),
		lag:       m.lag.WithLabelValues(o.kind, o.class),
		holds:     m.holds.WithLabelValues(o.kind, o.class),
		waiting:   m.waiting.WithLabelValues(o.kind, o.class),
		contended: m.contended.WithLabelValues(o.kind, o.class),
		renewed:   m.renewals.WithLabelValues(o.kind, o.class, "ok"),
		undone:    m.undone.WithLabelValues(o.kind, o.class),
		missed:    m.missed.WithLabelValues(o.kind, o.class),
		slow:      m.slow.WithLabelValues(o.kind, o.class),
	}
}
