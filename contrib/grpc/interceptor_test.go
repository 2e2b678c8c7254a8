package grpc_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/latchkey-go/latchkey"
	latchkeygrpc "github.com/latchkey-go/latchkey/contrib/grpc"
	"github.com/latchkey-go/latchkey/idem"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// A service counts its calls.
type service struct {
	grpc_health_v1.UnimplementedHealthServer
	handle func(ctx context.Context, service string) error
	ran    atomic.Int64
}

func (s *service) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	n := s.ran.Add(1)
	if s.handle != nil {
		if err := s.handle(ctx, r.GetService()); err != nil {
			return nil, err
		}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_ServingStatus(n)}, nil
}

// serve starts a server and returns what calls it with some keys.
func serve(t *testing.T, s *service, interceptor grpc.UnaryServerInterceptor) func(ctx context.Context, message string, keys ...string) (reply int64, replayed bool, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(interceptor))
	grpc_health_v1.RegisterHealthServer(server, s)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		require.NoError(t, <-served)
	})
	client := grpc_health_v1.NewHealthClient(conn)
	return func(ctx context.Context, message string, keys ...string) (int64, bool, error) {
		for _, key := range keys {
			ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
		}
		var header metadata.MD
		r, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: message}, grpc.Header(&header))
		return int64(r.GetStatus()), len(header.Get("idempotency-replayed")) > 0, err
	}
}

func onRedis(t *testing.T, opts ...latchkey.Option) (*latchkey.Client, *redistest.Server) {
	t.Helper()
	s := redistest.Start(t)
	return locktest.NewClient(t, s.Client(t), opts...), s
}

func TestReplay(t *testing.T) {
	c, _ := onRedis(t)
	s := &service{}
	call := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c)))
	for i := range 3 {
		reply, replayed, err := call(t.Context(), "x", "k")
		require.NoError(t, err)
		require.EqualValues(t, 1, reply)
		require.Equal(t, i > 0, replayed)
	}
	_, _, err := call(t.Context(), "y", "k")
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	for i := range 2 { // without a key
		reply, _, err := call(t.Context(), "x")
		require.NoError(t, err)
		require.EqualValues(t, 2+i, reply)
	}
	for _, bad := range [][]string{{""}, {strings.Repeat("k", 256)}, {"k", "k"}} {
		_, _, err := call(t.Context(), "x", bad...)
		require.Equal(t, codes.InvalidArgument, status.Code(err), bad)
	}
	require.EqualValues(t, 3, s.ran.Load())

	strict := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c), latchkeygrpc.Required()))
	_, _, err = strict(t.Context(), "x")
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

// A call gets what came of the one that runs, or a time after which to try again.
func TestUnderWay(t *testing.T) {
	c, _ := onRedis(t)
	running, finish := make(chan bool, 1), make(chan bool)
	s := &service{handle: func(context.Context, string) error {
		running <- true
		<-finish
		return nil
	}}
	call := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c)))
	wait := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c, idem.Wait(time.Hour))))
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, _, err := call(ctx, "x", "k")
		ended <- err
	}()
	<-running
	_, _, err := call(t.Context(), "x", "k")
	st := status.Convert(err)
	require.Equal(t, codes.Aborted, st.Code())
	require.Len(t, st.Details(), 1)
	require.Equal(t, time.Second, st.Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())

	leave() // the handler goes on
	require.Equal(t, codes.Canceled, status.Code(<-ended))
	go func() {
		_, replayed, err := wait(t.Context(), "x", "k")
		if err == nil && !replayed {
			err = fmt.Errorf("it is not replayed")
		}
		ended <- err
	}()
	close(finish)
	require.NoError(t, <-ended)
	require.EqualValues(t, 1, s.ran.Load())
}

// Which errors are kept.
func TestCodes(t *testing.T) {
	c, _ := onRedis(t)
	s := &service{handle: func(_ context.Context, message string) error {
		var code codes.Code
		if _, err := fmt.Sscan(message, &code); err != nil {
			return err
		}
		st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: "because"})
		if err != nil {
			return err
		}
		return st.Err()
	}}
	kept := map[codes.Code]bool{
		codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.PermissionDenied: true,
		codes.FailedPrecondition: true, codes.OutOfRange: true, codes.Unimplemented: true,
	}
	call := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c)))
	own := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c, idem.Name("own")),
		latchkeygrpc.Codes(func(code codes.Code) bool { return code == codes.Internal })))
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		message := fmt.Sprint(uint32(code))
		for range 2 {
			_, _, err := own(t.Context(), message, message)
			require.Equal(t, code, status.Code(err))
		}
		for i := range 2 {
			_, replayed, err := call(t.Context(), message, message)
			st := status.Convert(err)
			require.Equal(t, code, st.Code())
			require.Equal(t, "no", st.Message())
			require.Equal(t, "because", st.Details()[0].(*errdetails.ErrorInfo).GetReason())
			require.Equal(t, i > 0 && kept[code], replayed, code)
		}
	}
	last := int64(codes.Unauthenticated)
	require.Equal(t, 4*last-int64(len(kept))-1, s.ran.Load())
}

func TestScope(t *testing.T) {
	c, _ := onRedis(t)
	s := &service{}
	call := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c), latchkeygrpc.Scope(func(ctx context.Context) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, "user"), "")
	})))
	for i, user := range []string{"ann", "bob"} {
		for range 2 {
			reply, _, err := call(metadata.AppendToOutgoingContext(t.Context(), "user", user), "x", "k")
			require.NoError(t, err)
			require.EqualValues(t, 1+i, reply)
		}
	}
}

func TestOutage(t *testing.T) {
	c, server := onRedis(t, latchkey.WithAnswerTimeout(50*time.Millisecond), latchkey.WithUnlockTimeout(50*time.Millisecond))
	s := &service{}
	call := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c)))
	pass := serve(t, s, latchkeygrpc.UnaryServerInterceptor(idem.New(c), latchkeygrpc.Outage(idem.Pass)))
	server.Kill()
	_, _, err := call(t.Context(), "x", "k")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Zero(t, s.ran.Load())
	_, _, err = pass(t.Context(), "x", "k")
	require.NoError(t, err)
}

func TestPanics(t *testing.T) {
	for _, f := range []func(){
		func() { latchkeygrpc.UnaryServerInterceptor(nil) },
		func() { latchkeygrpc.Scope(nil) },
		func() { latchkeygrpc.Codes(nil) },
	} {
		require.Panics(t, f)
	}
}
