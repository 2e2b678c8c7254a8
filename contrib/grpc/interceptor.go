package grpc

import (
	"context"
	"errors"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/latchkey-go/latchkey/idem"
)

// An Option configures an interceptor.
type Option interface{ apply(*config) }

type option func(*config)

func (f option) apply(c *config) { f(c) }

type config struct {
	scope    func(ctx context.Context) string
	kept     func(codes.Code) bool
	outage   idem.Policy
	required bool
}

// Scope sets whose a key is, by a function that returns the user of a call: two users may
// use the same key, and neither gets the other's reply. It panics if user is nil. Default:
// all calls share their keys, and whoever knows a key gets the reply.
func Scope(user func(ctx context.Context) string) Option {
	if user == nil {
		panic("grpc: Scope: the function is nil")
	}
	return option(func(c *config) { c.scope = user })
}

// Codes sets which errors are kept, by their code; replies are kept in any case. It panics
// if kept is nil. Default: InvalidArgument, NotFound, AlreadyExists, PermissionDenied,
// FailedPrecondition, OutOfRange and Unimplemented. The others are about a moment, or do
// not say what has happened.
func Codes(kept func(codes.Code) bool) Option {
	if kept == nil {
		panic("grpc: Codes: the function is nil")
	}
	return option(func(c *config) { c.kept = kept })
}

// settled is the default of Codes.
func settled(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// Required refuses calls that have no key, with InvalidArgument. Default: they go to the
// handler as they are.
func Required() Option { return option(func(c *config) { c.required = true }) }

// Outage sets what becomes of a call when Redis cannot be reached. Default: idem.Refuse,
// by which it gets Unavailable before the handler runs.
func Outage(p idem.Policy) Option { return option(func(c *config) { c.outage = p }) }

const (
	keyName      = "idempotency-key"
	replayedName = "idempotency-replayed"
)

// UnaryServerInterceptor returns an interceptor that carries out each call once that has
// the metadata idempotency-key. It panics if keys is nil.
func UnaryServerInterceptor(keys *idem.Keys, opts ...Option) grpc.UnaryServerInterceptor {
	if keys == nil {
		panic("grpc: UnaryServerInterceptor: the keys are nil")
	}
	cfg := config{scope: func(context.Context) string { return "" }, kept: settled}
	for _, o := range opts {
		o.apply(&cfg)
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		values := metadata.ValueFromIncomingContext(ctx, keyName)
		switch {
		case len(values) == 0 && !cfg.required:
			return handler(ctx, req)
		case len(values) == 0:
			return nil, status.Error(codes.InvalidArgument, "this call needs the metadata "+keyName)
		case len(values) > 1:
			return nil, status.Errorf(codes.InvalidArgument, "%d values of the metadata %s", len(values), keyName)
		}
		request, err := encodeRequest(info.FullMethod, req)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "the message cannot be encoded: %v", err)
		}
		var resp any
		var failure error
		called := false
		kept, _, err := keys.Do(ctx, cfg.scope(ctx), values[0], request, func(ctx context.Context) (reply []byte, keep bool) {
			called = true
			resp, failure = handler(ctx, req)
			if failure != nil && !cfg.kept(status.Code(failure)) {
				return nil, false
			}
			reply, err := encode(resp, failure)
			return reply, err == nil
		})
		switch {
		case called:
			return resp, failure // this has happened, kept or not
		case err == nil:
			_ = grpc.SetHeader(ctx, metadata.Pairs(replayedName, "true")) // there is none outside a server
			return decode(kept)
		case errors.Is(err, idem.ErrUnderWay):
			return nil, underWay()
		case errors.Is(err, idem.ErrReused):
			return nil, status.Error(codes.FailedPrecondition, "this "+keyName+" belongs to a call with another method or message")
		case errors.Is(err, idem.ErrKey):
			return nil, status.Errorf(codes.InvalidArgument, "%s: %v", keyName, idem.ErrKey)
		case ctx.Err() != nil:
			return nil, status.FromContextError(ctx.Err()).Err()
		case cfg.outage == idem.Pass:
			return handler(ctx, req)
		}
		return nil, status.Error(codes.Unavailable, "the call was not carried out, because its "+keyName+" could not be looked up")
	}
}

// underWay returns the error of a call while another one with its key runs.
func underWay() error {
	st := status.New(codes.Aborted, "a call with this "+keyName+" is under way")
	if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}); err == nil {
		st = with
	}
	return st.Err()
}

var errNoMessage = errors.New("it is no protobuf message")

// encodeRequest returns what a call asks for: two with the same are one.
func encodeRequest(method string, req any) ([]byte, error) {
	m, ok := req.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(method+"\n"), m)
}

// The first byte of what is kept of a call says what follows: a google.protobuf.Any with
// the reply, or a google.rpc.Status.
const (
	isReply  = 1
	isStatus = 2
)

// encode returns what is kept of a call.
func encode(resp any, failure error) ([]byte, error) {
	if failure != nil {
		return proto.MarshalOptions{}.MarshalAppend([]byte{isStatus}, status.Convert(failure).Proto())
	}
	m, ok := resp.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	boxed, err := anypb.New(m)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend([]byte{isReply}, boxed)
}

// decode returns what encode had.
func decode(kept []byte) (resp any, failure error) {
	err := errors.New("it is of an unknown kind")
	if len(kept) > 0 && kept[0] == isStatus {
		st := &spb.Status{}
		if err = proto.Unmarshal(kept[1:], st); err == nil && st.GetCode() != int32(codes.OK) {
			return nil, status.FromProto(st).Err()
		}
	} else if len(kept) > 0 && kept[0] == isReply {
		boxed := &anypb.Any{}
		if err = proto.Unmarshal(kept[1:], boxed); err == nil {
			if resp, err = boxed.UnmarshalNew(); err == nil {
				return resp, nil
			}
		}
	}
	return nil, status.Errorf(codes.Internal, "the call was carried out, and its reply cannot be read: %v", err)
}
