package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// An Outcome is what an error says about the command that met it. Retries, the
// undoing of claims and MaybeApplied follow from it and from nothing else.
type Outcome int

// What may have become of a command.
const (
	// Ran: there was an answer.
	Ran Outcome = iota
	// NotNow: it did not run, and may if it is sent again: a server that is
	// loading or failing over, a connection that could not be made.
	NotNow
	// Never: it did not run, and sending it again will not help: no rights, no
	// memory, the wrong type of key, a command Redis does not know.
	Never
	// Maybe: it may have run; the answer is lost or has not come.
	Maybe
)

// passing are the beginnings of Redis's errors that go away by themselves.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MOVED", "ASK",
	"NOREPLICAS", "ERR max number of clients reached", "UNBLOCKED", "FAILOVER",
}

// lasting are the beginnings of those that do not.
var lasting = []string{
	"OOM", "NOPERM", "NOAUTH", "WRONGPASS", "MISCONF", "WRONGTYPE", "CROSSSLOT", "NOSCRIPT",
}

// Sort says what err tells about the command that met it.
func Sort(err error) Outcome {
	if err == nil {
		return Ran
	}
	return sortFailure(err)
}

// sortFailure is apart because what it looks for is allocated.
func sortFailure(err error) Outcome {
	var reply redis.Error
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, redis.Nil): // no script answers nil: a failover client found no sentinel that knows the primary
		return NotNow
	case errors.As(err, &reply):
		return sortReply(reply.Error())
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return NotNow
	case errors.Is(err, redis.ErrClosed):
		return Never
	case errors.As(err, &op) && op.Op == "dial": // also if a context ended it, as it does when it takes too long
		return NotNow
	case errors.As(err, &cert): // found in the handshake: there is no connection
		return NotNow
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
		return Maybe
	case strings.Contains(err.Error(), "cluster has no nodes"):
		return NotNow
	}
	return Maybe
}

// sortReply sorts an error that Redis itself sent.
func sortReply(text string) Outcome {
	switch {
	case hasCode(text, lasting):
		return Never
	case hasCode(text, passing):
		return NotNow
	case strings.Contains(text, "access a non local key"):
		// A script met a key that is gone while its slot is on the move; what came
		// before it stands. What it did again reaches the same state.
		return Maybe
	}
	// A script error that names none of the codes: a right that is missing
	// inside the script, or a defect. What came before it stands.
	return Never
}

// hasCode reports whether an error of Redis carries one of the codes: at its
// beginning, or, as servers before 7.0 report what went wrong inside a script,
// after a colon.
func hasCode(text string, codes []string) bool {
	for _, c := range codes {
		if strings.HasPrefix(text, c) ||
			strings.Contains(text, ": "+c+" ") || strings.Contains(text, ": -"+c+" ") {
			return true
		}
	}
	return false
}

// isCode reports whether err is Redis's error with that code.
func isCode(err error, code string) bool {
	if err == nil {
		return false
	}
	var reply redis.Error
	return errors.As(err, &reply) && hasCode(reply.Error(), []string{code})
}
