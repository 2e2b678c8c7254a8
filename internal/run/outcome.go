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

// An Outcome is what an error says about the command that failed with it. It
// alone decides about retries, the undoing of claims, and MaybeApplied.
type Outcome int

// The outcomes of a command.
const (
	// Executed: there was a reply.
	Executed Outcome = iota
	// Retryable: the command did not run, and may run if it is sent again. The
	// server is loading or failing over, or a connection could not be made.
	Retryable
	// Permanent: the command did not run, and sending it again does not help.
	// There are no rights, no memory, a key of the wrong type, or a command
	// that Redis does not know.
	Permanent
	// Unknown: the command may have run. The reply is lost or has not come.
	Unknown
)

// Redis refuses a command with one of these codes before it has written
// anything. Any other error, from a server or from a proxy in front of it, is
// Unknown: the script may have run in part or as a whole.
var (
	// temporary are the codes of conditions that end by themselves.
	temporary = []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MOVED", "ASK",
		"NOREPLICAS", "UNBLOCKED",
	}
	// permanent are the codes of other conditions. A script meets a key of
	// another type when it reads the key, before it writes.
	permanent = []string{
		"OOM", "NOPERM", "NOAUTH", "WRONGPASS", "MISCONF", "WRONGTYPE", "CROSSSLOT", "NOSCRIPT",
	}
)

// Classify returns the outcome of a command that returned err.
func Classify(err error) Outcome {
	if err == nil {
		return Executed
	}
	return classifyFailure(err)
}

// classifyFailure is a function of its own because errors.As allocates its
// targets.
func classifyFailure(err error) Outcome {
	var reply redis.Error
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	switch {
	case err == redis.Nil: //nolint:errorlint // an answer that no script gives
		return Unknown
	case errors.Is(err, redis.Nil): // no sentinel of a failover client knows the primary
		return Retryable
	case errors.As(err, &reply):
		return classifyReply(reply.Error())
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return Retryable
	case errors.Is(err, redis.ErrClosed):
		return Permanent
	case errors.As(err, &op) && op.Op == "dial": // even if a context ended it, as when a dial takes too long
		return Retryable
	case errors.As(err, &cert): // found in the handshake, so there is no connection
		return Retryable
	case errors.As(err, &header) && header.Conn != nil: // found in the handshake too
		return Retryable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
		return Unknown
	case strings.Contains(err.Error(), "cluster has no nodes"):
		return Retryable
	}
	return Unknown
}

// refused reports whether err says that the server cannot be reached and that
// another attempt soon would fail too: nothing listens, the host does not
// exist, or the TLS handshake fails. A timeout is not a refusal. Of several
// servers, all must have refused.
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

// joined returns the errors that err joins, or nil if err is a single error.
func joined(err error) []error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return nil
	}
	return several.Unwrap()
}

// classifyReply classifies an error reply of Redis.
func classifyReply(text string) Outcome {
	code, inside := codeOf(text)
	switch {
	case code == "NOPERM" && inside:
		return Unknown // writes that the script made before remain
	case slices.Contains(permanent, code), strings.HasPrefix(text, "ERR unknown command"):
		return Permanent
	case slices.Contains(temporary, code), text == "ERR max number of clients reached":
		return Retryable
	}
	return Unknown
}

// codeOf returns the code of an error reply, which is its first word, and
// whether the error comes from inside a script. Servers before 7.0 put other
// words before the code: "ERR Error running script (call to f_…):
// @user_script:1: @user_script: 1: -OOM …", or "@user_script: 1: -OOM …" if the
// script has caught and returned the error.
func codeOf(text string) (code string, inside bool) {
	rest, ok := strings.CutPrefix(text, "ERR Error running script (")
	if !ok {
		rest, ok = strings.CutPrefix(text, "ERR Error compiling script (") // the wording of miniredis
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
				break // text is not a marker before the code
			}
			text = after
		}
		text = strings.TrimPrefix(text, "-")
	}
	inside = inside || strings.Contains(text, " script: ")
	code, _, _ = strings.Cut(text, " ")
	return code, inside
}

// Hopeless reports whether sending a failed command again is useless: it did
// not run and cannot, or a script has failed and would fail again. The second
// case depends on the wording of known servers; it only saves time.
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

// onTheMove reports whether a script met a key that is gone because its slot is
// being moved. A repeated run reaches the same state.
func onTheMove(text string) bool {
	for _, words := range []string{"access a non local key", "undeclared keys were accessed", "keys that don't hash to the same slot"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// IsCode reports whether err is an error reply of Redis with the given code.
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
