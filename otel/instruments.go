package otel

import (
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are the instruments of a watcher.
type instruments struct {
	wait, hold, lag                                 metric.Float64Histogram
	holds, waiting                                  metric.Int64UpDownCounter
	contended, lost, renewals, undone, missed, slow metric.Int64Counter
	resubscribed, denied                            metric.Int64Counter
}

// make creates the instruments with m.
func (in *instruments) make(m metric.Meter) error {
	var errs error
	seconds := func(to *metric.Float64Histogram, name, description string, bounds ...float64) {
		var err error
		*to, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = errors.Join(errs, err)
	}
	upDown := func(to *metric.Int64UpDownCounter, name, unit, description string) {
		var err error
		*to, err = m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = errors.Join(errs, err)
	}
	counter := func(to *metric.Int64Counter, name, unit, description string) {
		var err error
		*to, err = m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = errors.Join(errs, err)
	}
	seconds(&in.wait, "latchkey.wait.duration", "Time from the call of an acquire to its end.",
		.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	seconds(&in.hold, "latchkey.hold.duration", "Time from the grant of a hold to its release or loss.",
		.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600)
	seconds(&in.lag, "latchkey.renewal.lag", "How late a renewal was sent.", .001, .01, .1, 1, 10)
	upDown(&in.holds, "latchkey.holds", "{hold}", "Holds and permits of this process.")
	upDown(&in.waiting, "latchkey.waiting", "{acquire}", "Calls of this process that wait.")
	counter(&in.contended, "latchkey.contended", "{acquire}", "Acquires that had to wait.")
	counter(&in.lost, "latchkey.lost", "{hold}", "Holds that ended without Unlock.")
	counter(&in.renewals, "latchkey.renewals", "{renewal}", "Renewals of leases.")
	counter(&in.undone, "latchkey.undone", "{acquire}", "Failed acquires that had been granted, and were taken back.")
	counter(&in.missed, "latchkey.missed_wakeups", "{acquire}", "Waiters that a recheck served and no message.")
	counter(&in.slow, "latchkey.slow_waits", "{report}", "Reports of calls that wait for long.")
	counter(&in.resubscribed, "latchkey.resubscribed", "{connection}", "Connections for wake-ups that were replaced.")
	counter(&in.denied, "latchkey.channels_denied", "{channel}", "Redis channels that may not be subscribed to.")
	return errs
}

// An object is the key of its attributes.
type object struct{ kind, class string }

// attributes are the attributes of one kind and class, made once.
type attributes struct {
	list   []attribute.KeyValue
	object metric.MeasurementOption
}

// of returns the attributes for an object with that kind and name.
func (w *watcher) of(kind, name string) *attributes {
	o := object{kind: kind}
	if w.classes != nil {
		o.class = valid(w.classes(kind, name))
	}
	w.mu.RLock()
	a := w.objects[o]
	w.mu.RUnlock()
	if a != nil {
		return a
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a = w.objects[o]; a != nil {
		return a
	}
	a = &attributes{list: []attribute.KeyValue{attribute.String("latchkey.kind", kind)}}
	if o.class != "" {
		a.list = append(a.list, attribute.String("latchkey.class", o.class))
	}
	a.object = metric.WithAttributeSet(attribute.NewSet(a.list...))
	w.objects[o] = a
	return a
}

// with returns the attributes with one more.
func (a *attributes) with(key, value string) metric.MeasurementOption {
	list := append(a.list[:len(a.list):len(a.list)], attribute.String(key, value))
	return metric.WithAttributeSet(attribute.NewSet(list...))
}

// valid returns text as valid UTF-8. A name may consist of any bytes, and a
// class may be part of it; exporters refuse a whole batch with invalid UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
