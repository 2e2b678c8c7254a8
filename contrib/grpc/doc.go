// Package grpc carries out a unary call of google.golang.org/grpc once, however often its
// client makes it. The client marks it with the metadata idempotency-key.
//
// [UnaryServerInterceptor] makes an interceptor of the keys of package idem. With
//
//	import latchkeygrpc "github.com/latchkey-go/latchkey/contrib/grpc"
//
// it is used so:
//
//	keys := idem.New(client, idem.Name("payments"))
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate,
//		latchkeygrpc.UnaryServerInterceptor(keys, latchkeygrpc.Scope(userOf))))
//
// # What a client gets
//
//	no key                                  the handler's reply; InvalidArgument with Required
//	a key that is not valid, or two         InvalidArgument
//	the first call with the key             the handler's reply or error, which is kept
//	the same call again                     what is kept, and the header idempotency-replayed
//	the same call while the first runs      Aborted with RetryInfo; with idem.Wait, the reply
//	another method or message               FailedPrecondition
//	the same, after an error that is not    the handler runs again; see Codes
//	kept, a panic or the end of idem.TTL
//	Redis cannot be reached                 Unavailable, and the handler has not run; see Outage
//
// Two messages are the same if their deterministic encodings are. A new version of a
// program may encode a message in another way, and then refuses, as another message, one
// that the version before has had.
//
// What is promised, and the commands, are as in package idem: four for a call that runs,
// and three for a replay. The handler's context does not end when its client goes away.
// Redis has replies and errors as they are, and hashes of all else. Headers and trailers
// that the handler sets are not kept.
package grpc
