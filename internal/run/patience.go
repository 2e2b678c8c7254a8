package run

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// inTime has f make one request, which may take so long.
func inTime(ctx context.Context, most time.Duration, f func(ctx context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := f(once)
	if err != nil && once.Err() != nil && ctx.Err() == nil && Classify(err) == Unknown {
		return silence(most)
	}
	return err
}

// A silence is the error of a request that had so long to be answered.
type silence time.Duration

func (d silence) Error() string {
	return "no answer from Redis within " + time.Duration(d).Round(time.Millisecond).String()
}

// IsSilence reports whether all the patience there was has gone into err.
func IsSilence(err error) bool {
	var s silence
	return errors.As(err, &s)
}

// Patiently returns how long one request may take of a call with so much patience, none
// of whose requests has been answered since then: the zero time for the first. The request
// ends with the patience, but has RetryMost at least; replicas that must confirm it have
// their time besides. Where go-redis's own timeout ends it as soon, or it is sent on the
// caller's goroutine, that is 0, for no bound, which is faster.
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

// Unanswered returns since when a call has had no answer whose first request was made
// at that time and has failed now. Where a single one, as long as go-redis's read
// timeout, has taken all the patience, there is a little left for another one, on
// another connection: what was lost may have been an answer.
func Unanswered(asked, now time.Time, patience time.Duration, err error) time.Time {
	if IsSilence(err) {
		return asked
	}
	if least := now.Add(min(patience, RetryMost) - patience); asked.Before(least) {
		return least
	}
	return asked
}

// TurnedAway reports whether err is a refusal that stays, of a server that has never
// answered it. A server that has may come back. One that nobody has met is more likely
// to be at another address, or to be spoken to in another way.
func (rn *Runner) TurnedAway(err error) bool { return err != nil && refused(err) && !rn.met(err) }

// met reports whether the server has answered e, or its go-redis client, which has met
// err now.
func (rn *Runner) met(err error) bool {
	if rn.answered.Load() {
		return true
	}
	switch rdb := rn.rdb.(type) {
	case *redis.Client:
		if BehindSentinel(rdb) && joined(err) == nil {
			return true // sentinels have said where the server is, and know when it is another one
		}
		return rdb.PoolStats().Hits > 0
	case *redis.ClusterClient:
		// What go-redis knows of the cluster will do: it is nothing before a node has
		// answered.
		known, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := rdb.MasterForKey(known, "")
		return err == nil
	}
	return false
}

// BehindSentinel reports whether rdb asks sentinels where its server is.
func BehindSentinel(rdb *redis.Client) bool { return rdb.Options().Addr == "FailoverClient" }

// Pieces is for how long a request that has been done in part, and may be done now, is
// sent again at once. Then it is refused, and who waits sends the next one.
const Pieces = 100 * time.Millisecond
