package otel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/otel"
)

// A rig is an Observer with the SDK behind it.
type rig struct {
	latchkey.Observer
	reader *sdkmetric.ManualReader
	tracer *sdktrace.TracerProvider
	spans  *tracetest.SpanRecorder
}

func newRig(t *testing.T, opts ...otel.Option) *rig {
	t.Helper()
	r := &rig{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	o, err := otel.New(append(opts,
		otel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))),
		otel.WithTracerProvider(r.tracer))...)
	require.NoError(t, err)
	r.Observer = o
	return r
}

// values returns what each metric has: the sum, or the count of a histogram, by
// the values of its attributes in the order of their names.
func (r *rig) values(t *testing.T) (values map[string]map[string]float64, units map[string]string) {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(context.Background(), &rm))
	values, units = map[string]map[string]float64{}, map[string]string{}
	key := func(set attribute.Set) string {
		var texts []string
		for _, kv := range set.ToSlice() {
			texts = append(texts, kv.Value.AsString())
		}
		return strings.Join(texts, " ")
	}
	for _, sm := range rm.ScopeMetrics {
		require.Equal(t, "github.com/latchkey-go/latchkey/otel", sm.Scope.Name)
		for _, m := range sm.Metrics {
			got := map[string]float64{}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					got[key(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					got[key(p.Attributes)] = float64(p.Count)
				}
			default:
				require.Failf(t, "odd data", "%T", d)
			}
			values[m.Name], units[m.Name] = got, m.Unit
		}
	}
	return values, units
}

func TestObserverRecordsWhatItHears(t *testing.T) {
	r := newRig(t, otel.Classes(func(_, name string) string { return strings.TrimRight(name, "0123456789") }))
	ctx := t.Context()
	acquired := func(kind, name string, contended bool, holds int) {
		if contended {
			r.WaitStarted(ctx, kind, name)
		}
		r.Acquired(ctx, latchkey.Acquisition{Kind: kind, Name: name, Wait: time.Second, Contended: contended, Holds: holds})
	}
	acquired("rlock", "job1", false, 1)
	acquired("rlock", "job2", true, 1)
	acquired("permitsemaphore", "slots", false, 3)
	acquired("semaphore", "sem", true, 0)
	for _, err := range []error{latchkey.ErrNotAcquired, context.Canceled, context.DeadlineExceeded, latchkey.ErrClosed, errors.New("no rights")} {
		r.AcquireFailed(ctx, latchkey.Acquisition{Kind: "rlock", Name: "job3"}, err)
	}
	r.WaitStarted(ctx, "rlock", "job4")
	r.Released("rlock", "job1", time.Second)
	r.Lost("permitsemaphore", "slots", time.Minute, latchkey.LossTaken)
	r.Renewed("rlock", "job2", time.Millisecond)
	r.Renewed("rlock", "job2", time.Millisecond)
	r.RenewFailed("rlock", "job2", nil)
	r.Undone("rlock", "job1")
	r.HintMissed("rlock", "12")
	r.SlowWait(latchkey.SlowWait{Kind: "rlock", Name: "job1"})
	r.SlowWait(latchkey.SlowWait{Kind: "rlock", Name: "job4"})
	r.Resubscribed(7)
	r.ChannelDenied("x", latchkey.ErrChannelDenied)

	values, units := r.values(t)
	require.Equal(t, map[string]map[string]float64{
		"latchkey.wait.duration": {
			"job rlock acquired": 2, "job rlock refused": 1, "job rlock canceled": 2, "job rlock closed": 1, "job rlock failed": 1,
			"slots permitsemaphore acquired": 1, "sem semaphore acquired": 1,
		},
		"latchkey.hold.duration":   {"job rlock": 1, "slots permitsemaphore": 1},
		"latchkey.holds":           {"job rlock": 1, "slots permitsemaphore": 2},
		"latchkey.waiting":         {"job rlock": 1, "sem semaphore": 0},
		"latchkey.contended":       {"job rlock": 2, "sem semaphore": 1},
		"latchkey.lost":            {"slots permitsemaphore taken": 1},
		"latchkey.renewals":        {"job rlock ok": 2, "job rlock failed": 1},
		"latchkey.renewal.lag":     {"job rlock": 2},
		"latchkey.undone":          {"job rlock": 1},
		"latchkey.missed_wakeups":  {"rlock": 1}, // an empty class is left out
		"latchkey.slow_waits":      {"job rlock": 2},
		"latchkey.resubscribed":    {"": 1},
		"latchkey.channels_denied": {"": 1},
	}, values)
	for name, unit := range units {
		require.NotEmpty(t, unit, name)
	}
	require.Equal(t, "s", units["latchkey.wait.duration"])
}

func TestSpansOfContendedWaits(t *testing.T) {
	r := newRig(t)
	ctx, parent := r.tracer.Tracer("caller").Start(t.Context(), "work")
	r.Acquired(ctx, latchkey.Acquisition{Kind: "rlock", Name: "free", Wait: time.Second, Holds: 1})
	require.Empty(t, r.spans.Ended(), "a free lock makes no span")

	broken := errors.New("no rights")
	for err, status := range map[error]codes.Code{
		nil: codes.Unset, latchkey.ErrNotAcquired: codes.Unset, context.Canceled: codes.Unset, broken: codes.Error,
	} {
		a := latchkey.Acquisition{Kind: "rlock", Name: "order:42", Wait: 3 * time.Second, Contended: true}
		r.WaitStarted(ctx, a.Kind, a.Name)
		if err == nil {
			r.Acquired(ctx, a)
		} else {
			r.AcquireFailed(ctx, a, err)
		}
		ended := r.spans.Ended()
		span := ended[len(ended)-1]
		require.Equal(t, "latchkey.wait", span.Name())
		require.Equal(t, parent.SpanContext().SpanID(), span.Parent().SpanID())
		require.Equal(t, 3*time.Second, span.EndTime().Sub(span.StartTime()))
		require.WithinDuration(t, time.Now(), span.EndTime(), 10*time.Second)
		require.Equal(t, status, span.Status().Code)
		require.Equal(t, status == codes.Error, len(span.Events()) == 1)
		require.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("latchkey.kind", "rlock"), attribute.String("latchkey.name", "order:42"),
			attribute.String("latchkey.outcome", latchkey.Outcome(err)),
		}, span.Attributes())
	}
	require.Len(t, r.spans.Ended(), 4)
}

// Without a configured SDK all of it does nothing, and fails nothing.
func TestGlobalProviders(t *testing.T) {
	o, err := otel.New()
	require.NoError(t, err)
	o.WaitStarted(t.Context(), "rlock", "a")
	o.Acquired(t.Context(), latchkey.Acquisition{Kind: "rlock", Name: "a", Contended: true, Holds: 1})
	o.Released("rlock", "a", time.Second)
}

// refusing is a provider whose meters have no histograms.
type refusing struct{ noop.MeterProvider }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

type refusingMeter struct{ noop.Meter }

var errRefused = errors.New("refused")

func (refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errRefused
}

func TestNewTellsOfARefusedInstrument(t *testing.T) {
	_, err := otel.New(otel.WithMeterProvider(refusing{}))
	require.ErrorIs(t, err, errRefused)
}

// A name may be any bytes. Exporters refuse a whole batch for one text that is no
// UTF-8.
func TestNamesThatAreNoText(t *testing.T) {
	r := newRig(t, otel.Classes(func(_, name string) string { return name }))
	a := latchkey.Acquisition{Kind: "rlock", Name: "a\xff", Contended: true}
	r.WaitStarted(t.Context(), a.Kind, a.Name)
	r.AcquireFailed(t.Context(), a, errors.New("no\xff rights"))
	values, _ := r.values(t)
	require.Equal(t, map[string]float64{"a\uFFFD rlock": 0}, values["latchkey.waiting"])
	span := r.spans.Ended()[0]
	require.Contains(t, span.Attributes(), attribute.String("latchkey.name", "a\uFFFD"))
	require.Contains(t, span.Attributes(), attribute.String("latchkey.class", "a\uFFFD"))
	require.Equal(t, "no\uFFFD rights", span.Status().Description)
	require.Contains(t, span.Events()[0].Attributes, attribute.String("exception.message", "no\uFFFD rights"))
}
