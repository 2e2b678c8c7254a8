// Package idem carries out an HTTP request once, however often its client sends it. The
// client marks it with the header field Idempotency-Key, as the draft
// draft-ietf-httpapi-idempotency-key-header of the IETF describes it.
//
//	guard := idem.Middleware(client, idem.Scope(func(r *http.Request) string { return userOf(r) }))
//	mux.Handle("POST /payments", guard(payments))
//
// A client makes a key for each request, such as a UUID, and sends the same key when it
// does not know what became of the request. Its requests may reach any machine.
//
// # What a client gets
//
//	no key                                  the handler's response; 400 with Required
//	a key that is not valid, or two         400
//	a body above MaxRequest                 413; see Oversize
//	the first request with the key          the handler's response, which is kept
//	the same request again                  the response that is kept, with
//	                                        Idempotency-Replayed: true
//	the same request while the first runs   409 with Retry-After; with Wait, the response
//	another method, path, query or body     422
//	the same, after a response that is      the handler runs again; see Statuses
//	not kept, a panic or the end of TTL
//	the same, after a response above        409; see Oversize
//	MaxResponse
//	Redis cannot be reached                 503, and the handler has not run; see Outage
//
// A refusal has a body of type application/problem+json (RFC 9457). Its member code is,
// in the order of the table, key-missing, key-invalid, body-too-large, under-way,
// key-reused, response-too-large or unavailable.
//
// The key is a string of RFC 8941, in quotes, or a bare word: abc and "abc" are the same
// key. It has up to 255 printable characters of ASCII.
//
// # What is promised
//
// While Redis keeps its data, no two handlers run for a key at a time, and none after one
// whose response is kept. The response is sent after it is kept. So of a process that is
// killed
//
//	before the handler                nothing has happened: the next request runs it
//	in the handler                    the next request runs it again, when the lease has
//	                                  ended: it finds what was done by then
//	after it, before the response     the same
//	is kept
//	after that                        the next request gets the response
//
// Let the handler make what it does and a note of it in one step, such as a transaction
// of a database, where a second run must not happen even then. The lease is 30 s
// (latchkey.WithWatchdogTimeout), and renewed while the handler runs.
//
// If the response cannot be kept, because Redis has gone meanwhile or the lease was lost,
// it is sent all the same, for it says what has happened; the client's logger is told.
// The next request runs the handler again.
//
// # The handler
//
// Its context has the values of the request's, and does not end when the client goes
// away or when a deadline from outside has passed: what was begun is finished and kept,
// and a repeated request finds it. It ends when the lease is lost, after AtMost, and when
// the latchkey.Client is closed. From then on nothing is kept, and another request with
// the key may run.
//
// A handler that returns without a word has answered 200, and that is kept. Where a
// framework makes a response of the error that a handler returns, it has to do so inside
// the middleware, as in idem/examples.
//
// Its response stands in memory until the handler returns, up to MaxResponse. Flush sends
// what there is: from then on the response is sent as it is written, before it is kept,
// and kept when the handler has returned. Informational responses (1xx) and trailers are
// sent and not kept. After Hijack, or status 101, nothing is kept.
//
// A panic goes on, http.ErrAbortHandler too, and what was written and not flushed is not
// sent.
//
// Put the middleware behind what authenticates, for a replay asks the handler for no
// rights, and behind what compresses. Fields of the header that were set before it belong
// to each request, and are not kept.
//
// # Keys and round trips
//
// Redis has no part of a request, only hashes (SHA-256) of scope, key, method, path, query
// and body; but it has responses as they are. All keys of a request are in one hash slot,
// and expire. With h, a hash of the scope and the key, they are
//
//	{idem:h}:latchkey_idem        the lock: that of package rlock
//	{idem:h}:latchkey_idem_call   a hash: the call that runs
//	{idem:h}:latchkey_idem_value  a text: the response, for TTL
//
// where idem is what Name says. A request that runs takes four commands: acquire, begin,
// keep and release. A replay takes three, and a refusal two or three. A request that waits
// takes one more whenever something has changed, or at the recheck.
package idem
