package run

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// An Outcome is what an error says about the command that met it. Retries, the
// undoing of claims and MaybeApplied follow from it and from nothing else.
type Outcome int

// What may have become of a command.
const (
	// Executed: there was an answer.
	Executed Outcome = iota
	// Retryable: it did not run, and may if it is sent again: a server that is
	// loading or failing over, a connection that could not be made.
	Retryable
	// Permanent: it did not run, and sending it again will not help: no rights, no
	// memory, the wrong type of key, a command Redis does not know.
	Permanent
	// Unknown: it may have run; the answer is lost or has not come.
	Unknown
)

// A server's error is definite only with one of these codes, by which a command is
// refused before it has written anything. Whatever else a server, or a proxy before it,
// says is Unknown: the script may have been carried out, in part or as a whole.
var (
	// passing are the codes of what goes away by itself.
	passing = []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MOVED", "ASK",
		"NOREPLICAS", "UNBLOCKED",
	}
	// lasting are those of what does not. Scripts meet a key of another type when they
	// read it, before they write.
	lasting = []string{
		"OOM", "NOPERM", "NOAUTH", "WRONGPASS", "MISCONF", "WRONGTYPE", "CROSSSLOT", "NOSCRIPT",
	}
)

// Classify says what err tells about the command that met it.
func Classify(err error) Outcome {
	if err == nil {
		return Executed
	}
	return sortFailure(err)
}

// sortFailure is apart because what it looks for is allocated.
func sortFailure(err error) Outcome {
	var reply redis.Error
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	switch {
	case err == redis.Nil: //nolint:errorlint // an answer that no script gives
		return Unknown
	case errors.Is(err, redis.Nil): // a failover client found no sentinel that knows the primary
		return Retryable
	case errors.As(err, &reply):
		return sortReply(reply.Error())
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return Retryable
	case errors.Is(err, redis.ErrClosed):
		return Permanent
	case errors.As(err, &op) && op.Op == "dial": // also if a context ended it, as it does when it takes too long
		return Retryable
	case errors.As(err, &cert): // found in the handshake: there is no connection
		return Retryable
	case errors.As(err, &header) && header.Conn != nil: // before there was one
		return Retryable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
		return Unknown
	case strings.Contains(err.Error(), "cluster has no nodes"):
		return Retryable
	}
	return Unknown
}

// refused reports whether err says that there is no way to the server, and that there
// would be none if it were asked for again soon: nobody listens, there is no such host,
// TLS does not come about. What takes too long is no refusal. Of several servers all
// must have refused.
func refused(err error) bool {
	if errs := joined(err); errs != nil {
		return !slices.ContainsFunc(errs, func(err error) bool { return !refused(err) })
	}
	var op *net.OpError
	var host *net.DNSError
	var cert *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &host):
		return host.IsNotFound
	case errors.As(err, &cert), errors.As(err, &header):
		return true
	case errors.As(err, &op) && op.Op == "dial":
		return !op.Timeout() && !op.Temporary() && !errors.Is(err, context.Canceled)
	case errors.As(err, &op):
		return op.Op == "remote error" || op.Op == "local error" // alerts of TLS
	}
	return false
}

// joined returns the errors of which err is made up; nil when it is a single one.
func joined(err error) []error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return nil
	}
	return several.Unwrap()
}

// sortReply sorts an error that Redis itself sent.
func sortReply(text string) Outcome {
	code, inside := codeOf(text)
	switch {
	case code == "NOPERM" && inside:
		return Unknown // what the script did before stands
	case slices.Contains(lasting, code), strings.HasPrefix(text, "ERR unknown command"):
		return Permanent
	case slices.Contains(passing, code), text == "ERR max number of clients reached":
		return Retryable
	}
	return Unknown
}

// codeOf returns the first word of an error of Redis, which is its code, and whether it
// comes from inside a script. Servers before 7.0 put that first word behind others:
// "ERR Error running script (call to f_…): @user_script:1: @user_script: 1: -OOM …", and
// "@user_script: 1: -OOM …" where the script has caught and returned it.
func codeOf(text string) (code string, inside bool) {
	rest, ok := strings.CutPrefix(text, "ERR Error running script (")
	if !ok {
		rest, ok = strings.CutPrefix(text, "ERR Error compiling script (") // as miniredis says
	}
	if !ok && strings.HasPrefix(text, "@user_script: ") {
		rest, ok = text, true
	}
	if ok {
		inside = true
		text = rest
		for {
			mark, after, ok := strings.Cut(text, ": ")
			if !ok || strings.Contains(mark, " ") && mark != "new function)" && !strings.HasPrefix(mark, "call to f_") {
				break // the first word is not alone
			}
			text = after
		}
		text = strings.TrimPrefix(text, "-")
	}
	inside = inside || strings.Contains(text, " script: ")
	code, _, _ = strings.Cut(text, " ")
	return code, inside
}

// Hopeless reports whether it is of no use to send again what met err: it never ran, or
// a script has failed with it and would once more. The second goes by the words of known
// servers, and saves time only.
func Hopeless(err error) bool {
	if err == nil {
		return false
	}
	switch Classify(err) {
	case Permanent:
		return true
	case Unknown:
		var reply redis.Error
		if !errors.As(err, &reply) {
			return false
		}
		text := reply.Error()
		_, inside := codeOf(text)
		return inside && !onTheMove(text)
	}
	return false
}

// onTheMove reports whether a script met a key that is gone while its slot is on the
// move. What it did again reaches the same state.
func onTheMove(text string) bool {
	for _, words := range []string{"access a non local key", "undeclared keys were accessed", "keys that don't hash to the same slot"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// IsCode reports whether err is Redis's error with that code.
func IsCode(err error, code string) bool {
	if err == nil {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	got, _ := codeOf(reply.Error())
	return got == code
}
