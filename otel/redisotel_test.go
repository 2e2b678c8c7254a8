package otel_test

import (
	"testing"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// redisotel, on the client that latchkey is given, makes a span of each script, in the
// trace of the caller.
func TestSpansOfScripts(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	require.NoError(t, redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(tracers)))
	c := latchkey.New(rdb)
	t.Cleanup(func() { _ = c.Close() })

	ctx, work := tracers.Tracer("program").Start(t.Context(), "work")
	h, err := rlock.New(c, "a").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
	work.End()

	scripts := 0
	for _, span := range spans.Ended() {
		if span.Name() == "evalsha" || span.Name() == "eval" {
			require.Equal(t, work.SpanContext().TraceID(), span.SpanContext().TraceID())
			scripts++
		}
	}
	require.GreaterOrEqual(t, scripts, 2, "an acquire and a release")
}
