package run

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// inTime calls f, which makes one request, with a time limit of most.
func inTime(ctx context.Context, most time.Duration, f func(ctx context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := f(once)
	if err != nil && once.Err() != nil && ctx.Err() == nil && Classify(err) == Unknown {
		return silence(most)
	}
	return err
}

// A silence is the error of a request that had no reply within that time.
type silence time.Duration

func (d silence) Error() string {
	return "no answer from Redis within " + time.Duration(d).Round(time.Millisecond).String()
}

// IsSilence reports whether err is that of a request that used up all of its
// time.
func IsSilence(err error) bool {
	var s silence
	return errors.As(err, &s)
}

// Patiently returns how long one request of a call with the given patience may
// take. since is when the call's unanswered requests began, or zero for the
// first request. The request ends with the patience, but has at least
// RetryMost; replicas that must confirm it have their own time on top.
// Patiently returns 0, for no bound, which is faster, if go-redis's own timeout
// ends the request as soon or the request is sent on the caller's goroutine.
func (rn *Runner) Patiently(patience time.Duration, since time.Time) time.Duration {
	left := patience
	switch {
	case !since.IsZero():
		left = max(patience-time.Since(since), min(patience, RetryMost))
	case rn.sender.inlines() && patience >= inlineBound && !rn.cfg.Acks.On():
		return 0
	case rn.answered.Load() && rn.sender.read > 0 && rn.sender.read <= patience:
		return 0
	}
	if rn.cfg.Acks.On() {
		left += rn.cfg.Acks.Timeout
	}
	return left
}

// Unanswered returns since when a call is without a reply. asked is when its
// first request was made, which has failed now. If that one request took all
// the patience, as long as go-redis's read timeout, a little is left for
// another request on another connection, because the reply may have been lost.
func Unanswered(asked, now time.Time, patience time.Duration, err error) time.Time {
	if IsSilence(err) {
		return asked
	}
	if least := now.Add(min(patience, RetryMost) - patience); asked.Before(least) {
		return least
	}
	return asked
}

// TurnedAway reports whether err is a lasting refusal by a server that has
// never answered. A server that has answered may come back. One that never did
// is more likely to have another address or to need another protocol.
func (rn *Runner) TurnedAway(err error) bool { return err != nil && refused(err) && !rn.met(err) }

// met reports whether the server has ever answered this runner or its go-redis
// client. err is the present error.
func (rn *Runner) met(err error) bool {
	if rn.answered.Load() {
		return true
	}
	switch rdb := rn.rdb.(type) {
	case *redis.Client:
		if BehindSentinel(rdb) && joined(err) == nil {
			return true // sentinels named the server, and know when it is another one
		}
		return rdb.PoolStats().Hits > 0
	case *redis.ClusterClient:
		// The state that go-redis has of the cluster suffices. It has none
		// before a node has answered.
		known, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := rdb.MasterForKey(known, "")
		return err == nil
	}
	return false
}

// BehindSentinel reports whether rdb asks sentinels for the address of its
// server.
func BehindSentinel(rdb *redis.Client) bool { return rdb.Options().Addr == "FailoverClient" }

// Pieces is for how long a request that is done in pieces is sent again at
// once. After that it counts as refused, and its waiter sends the next one.
const Pieces = 100 * time.Millisecond
