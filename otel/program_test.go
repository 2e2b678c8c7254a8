package otel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/otel"
	"github.com/latchkey-go/latchkey/rlock"
)

// programAddr says, in the environment of this very binary, that it shall be the
// program below, and where Redis is.
const programAddr = "LATCHKEY_OTEL_TEST_REDIS"

// program is instrumented as programs are: a global SDK, whose exporters write to
// standard output, and locks.
func program(addr string) int {
	if err := run(context.Background(), addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, addr string) error {
	spans, err := stdouttrace.New()
	if err != nil {
		return err
	}
	points, err := stdoutmetric.New()
	if err != nil {
		return err
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points)))
	global.SetTracerProvider(tracers)
	global.SetMeterProvider(meters)

	observer, err := otel.New()
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	c := latchkey.New(rdb, latchkey.WithObserver(observer))
	err = work(ctx, c)
	return errors.Join(err, c.Close(), tracers.Shutdown(ctx), meters.Shutdown(ctx))
}

// work is a free acquire and one that has to wait.
func work(ctx context.Context, c *latchkey.Client) error {
	ctx, span := global.Tracer("program").Start(ctx, "work")
	defer span.End()
	l := rlock.New(c, "a")
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	second := l.LockAsync(ctx)
	for c.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := h.Unlock(ctx); err != nil {
		return err
	}
	got := <-second
	if got.Err != nil {
		return got.Err
	}
	return got.Value.Unlock(ctx)
}

func TestExportOfAProgram(t *testing.T) {
	s := redistest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), programAddr+"="+s.Addr)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)

	type id struct{ TraceID, SpanID string }
	var got struct {
		Name                string // of a span
		SpanContext, Parent id
		ScopeMetrics        []struct {
			Metrics []struct {
				Name string
				Data struct {
					DataPoints []struct {
						Value any
						Count int
					}
				}
			}
		}
	}
	spans := map[string]id{}
	parents := map[string]id{}
	counts := map[string]float64{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		g := got
		if err := dec.Decode(&g); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err, "%s", out)
		}
		if g.Name != "" {
			spans[g.Name], parents[g.Name] = g.SpanContext, g.Parent
		}
		for _, sm := range g.ScopeMetrics {
			for _, m := range sm.Metrics {
				for _, p := range m.Data.DataPoints {
					v, _ := p.Value.(float64)
					counts[m.Name] += v + float64(p.Count)
				}
			}
		}
	}
	require.Equal(t, map[string]float64{
		"latchkey.wait.duration": 2, "latchkey.hold.duration": 2, "latchkey.contended": 1, "latchkey.waiting": 0, "latchkey.holds": 0,
	}, counts)
	require.Len(t, spans, 2, "one contended wait, and the caller's")
	require.Equal(t, spans["work"], parents["latchkey.wait"])
}
