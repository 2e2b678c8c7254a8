package engine

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// AnswerTimeout is for how long a call asks a server that does not answer, unless the
// client says otherwise.
const AnswerTimeout = 3 * time.Second

// waiterPatience is for how long a caller that waits already goes on without an
// answer: it outlives a failover. One that asks first has the answer timeout.
const waiterPatience = 30 * time.Second

// inTime has f make one request, which may take so long.
func inTime(ctx context.Context, most time.Duration, f func(ctx context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := f(once)
	if err != nil && once.Err() != nil && ctx.Err() == nil && Sort(err) == Maybe {
		return silence(most)
	}
	return err
}

// A silence is the error of a request that had so long to be answered.
type silence time.Duration

func (d silence) Error() string {
	return "no answer from Redis within " + time.Duration(d).Round(time.Millisecond).String()
}

// isSilence reports whether all the patience there was has gone into err.
func isSilence(err error) bool {
	var s silence
	return errors.As(err, &s)
}

// patiently returns how long one request may take of a call with so much patience, none
// of whose requests has been answered since then: the zero time for the first. The request
// ends with the patience, but has retryMost at least; replicas that must confirm it have
// their time besides. Where go-redis's own timeout ends it as soon, or it is sent on the
// caller's goroutine, that is 0, for no bound, which is faster.
func (e *Engine) patiently(patience time.Duration, since time.Time) time.Duration {
	left := patience
	switch {
	case !since.IsZero():
		left = max(patience-time.Since(since), min(patience, retryMost))
	case e.sender.inlines() && patience >= inlineBound && !e.cfg.Acks.on():
		return 0
	case e.answered.Load() && e.sender.read > 0 && e.sender.read <= patience:
		return 0
	}
	if e.cfg.Acks.on() {
		left += e.cfg.Acks.Timeout
	}
	return left
}

// unanswered returns since when a call has had no answer whose first request was made
// at that time and has failed now. Where a single one, as long as go-redis's read
// timeout, has taken all the patience, there is a little left for another one, on
// another connection: what was lost may have been an answer.
func unanswered(asked, now time.Time, patience time.Duration, err error) time.Time {
	if isSilence(err) {
		return asked
	}
	if least := now.Add(min(patience, retryMost) - patience); asked.Before(least) {
		return least
	}
	return asked
}

// TurnedAway reports whether err is a refusal that stays, of a server that has never
// answered e. A server that has may come back. One that nobody has met is more likely
// to be at another address, or to be spoken to in another way.
func (e *Engine) TurnedAway(err error) bool { return err != nil && refused(err) && !e.met(err) }

// met reports whether the server has answered e, or its go-redis client, which has met
// err now.
func (e *Engine) met(err error) bool {
	if e.answered.Load() {
		return true
	}
	switch rdb := e.rdb.(type) {
	case *redis.Client:
		if behindSentinel(rdb) && joined(err) == nil {
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

// behindSentinel reports whether rdb asks sentinels where its server is.
func behindSentinel(rdb *redis.Client) bool { return rdb.Options().Addr == "FailoverClient" }

// AnswerTimeout returns for how long a call asks a server that does not answer.
func (e *Engine) AnswerTimeout() time.Duration { return e.cfg.AnswerTimeout }
