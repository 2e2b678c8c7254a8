package prom_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/prom"
)

// values returns what a family has: the value of a gauge or counter, the count of
// a histogram, by the values of its labels in the order of their names.
func values(t *testing.T, families []*dto.MetricFamily, name string) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			var key []string
			for _, k := range slices.Sorted(maps.Keys(labels)) {
				key = append(key, labels[k])
			}
			got[strings.Join(key, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		return got
	}
	require.Fail(t, "no metric "+name)
	return nil
}

func gather(t *testing.T, c prometheus.Collector) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	return families
}

func TestCollectorCountsWhatTheObserverHears(t *testing.T) {
	c := prom.New(prom.Classes(func(kind, name string) string { return strings.TrimRight(name, "0123456789") }))
	o := c.Observer()
	ctx := t.Context()
	acquired := func(kind, name string, contended bool, holds int) {
		if contended {
			o.WaitStarted(ctx, kind, name)
		}
		o.Acquired(ctx, latchkey.Acquisition{Kind: kind, Name: name, Wait: time.Second, Contended: contended, Holds: holds})
	}
	acquired("rlock", "job1", false, 1)
	acquired("rlock", "job2", true, 1)
	acquired("permitsemaphore", "slots", false, 3)
	acquired("semaphore", "sem", true, 0)
	for _, err := range []error{latchkey.ErrNotAcquired, context.Canceled, context.DeadlineExceeded, latchkey.ErrClosed, errors.New("no rights")} {
		o.AcquireFailed(ctx, latchkey.Acquisition{Kind: "rlock", Name: "job3"}, err)
	}
	o.WaitStarted(ctx, "rlock", "job4")
	o.Released("rlock", "job1", time.Second)
	o.Lost("permitsemaphore", "slots", time.Minute, latchkey.LossTaken)
	o.Renewed("rlock", "job2", time.Millisecond)
	o.Renewed("rlock", "job2", time.Millisecond)
	o.RenewFailed("rlock", "job2", nil)
	o.Undone("rlock", "job1")
	o.HintMissed("rlock", "job1")
	o.SlowWait(latchkey.SlowWait{Kind: "rlock", Name: "job1"})
	o.SlowWait(latchkey.SlowWait{Kind: "rlock", Name: "job4"})
	o.Resubscribed(7)
	o.ChannelDenied("x", latchkey.ErrChannelDenied)

	families := gather(t, c)
	for name, want := range map[string]map[string]float64{
		"latchkey_wait_seconds": {
			"job rlock acquired": 2, "job rlock refused": 1, "job rlock canceled": 2, "job rlock closed": 1, "job rlock failed": 1,
			"slots permitsemaphore acquired": 1, "sem semaphore acquired": 1,
		},
		"latchkey_hold_seconds":    {"job rlock": 1, "slots permitsemaphore": 1, "sem semaphore": 0},
		"latchkey_holds":           {"job rlock": 1, "slots permitsemaphore": 2, "sem semaphore": 0},
		"latchkey_waiting":         {"job rlock": 1, "slots permitsemaphore": 0, "sem semaphore": 0},
		"latchkey_contended_total": {"job rlock": 2, "slots permitsemaphore": 0, "sem semaphore": 1},
		"latchkey_lost_total": {
			"job rlock expired": 0, "job rlock taken": 0, "job rlock limit": 0,
			"slots permitsemaphore expired": 0, "slots permitsemaphore taken": 1, "slots permitsemaphore limit": 0,
			"sem semaphore expired": 0, "sem semaphore taken": 0, "sem semaphore limit": 0,
		},
		"latchkey_renewals_total": {
			"job rlock ok": 2, "job rlock failed": 1, "slots permitsemaphore ok": 0, "slots permitsemaphore failed": 0,
			"sem semaphore ok": 0, "sem semaphore failed": 0,
		},
		"latchkey_renewal_lag_seconds":   {"job rlock": 2, "slots permitsemaphore": 0, "sem semaphore": 0},
		"latchkey_undone_total":          {"job rlock": 1, "slots permitsemaphore": 0, "sem semaphore": 0},
		"latchkey_missed_wakeups_total":  {"job rlock": 1, "slots permitsemaphore": 0, "sem semaphore": 0},
		"latchkey_slow_waits_total":      {"job rlock": 2, "slots permitsemaphore": 0, "sem semaphore": 0},
		"latchkey_resubscribed_total":    {"": 1},
		"latchkey_channels_denied_total": {"": 1},
	} {
		require.Equal(t, want, values(t, families, name), name)
	}
	require.Len(t, families, 13, "each is checked here")
}

// Without a map names make no series, however many there are.
func TestNamesAreNoLabels(t *testing.T) {
	c := prom.New(prom.WaitBuckets(1), prom.HoldBuckets(1, 2))
	o := c.Observer()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				name := strings.Repeat("x", i)
				o.Acquired(t.Context(), latchkey.Acquisition{Kind: "rlock", Name: name, Holds: 1})
				o.Released("rlock", name, time.Second)
			}
		})
	}
	wg.Wait()
	families := gather(t, c)
	require.Equal(t, map[string]float64{" rlock": 8000}, values(t, families, "latchkey_hold_seconds"))
	require.Equal(t, map[string]float64{" rlock": 0}, values(t, families, "latchkey_holds"))
	require.Panics(t, func() { prom.Classes(nil)(nil) })
}

func TestObserverAllocatesNothing(t *testing.T) {
	o := prom.New().Observer()
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		o.WaitStarted(ctx, "rlock", "a")
		o.Acquired(ctx, latchkey.Acquisition{Kind: "rlock", Name: "a", Contended: true, Holds: 1})
		o.Renewed("rlock", "a", 0)
		o.Released("rlock", "a", 0)
	}))
}

func TestBucketsThatDoNotGrow(t *testing.T) {
	for _, bounds := range [][]float64{{2, 1}, {1, 1}, {1, math.NaN()}} {
		require.Panics(t, func() { prom.New(prom.WaitBuckets(bounds...)) }, "%v", bounds)
		require.Panics(t, func() { prom.New(prom.HoldBuckets(bounds...)) }, "%v", bounds)
	}
	require.NotPanics(t, func() { prom.New(prom.WaitBuckets(1, 2), prom.HoldBuckets(1)) })
}

func TestClassesOfNamesThatAreNoText(t *testing.T) {
	c := prom.New(prom.Classes(func(_, name string) string { return name }))
	c.Observer().Acquired(t.Context(), latchkey.Acquisition{Kind: "rlock", Name: "a\xff", Holds: 1})
	require.Equal(t, map[string]float64{"a\uFFFD rlock": 1}, values(t, gather(t, c), "latchkey_holds"))
}
