// Package otel reports what a latchkey client does to OpenTelemetry. It uses
// only the API; the SDK of the program decides what becomes of the data.
//
//	observer, err := otel.New()
//	if err != nil {
//		return err
//	}
//	client := latchkey.New(rdb, latchkey.WithObserver(observer))
//
// # Metrics
//
//	latchkey.wait.duration     s           histogram  from the call of an acquire to its end, by outcome
//	latchkey.hold.duration     s           histogram  from grant to release or loss
//	latchkey.contended         {acquire}   counter    acquires that had to wait
//	latchkey.holds             {hold}      up-down    holds and permits of this process
//	latchkey.waiting           {acquire}   up-down    calls that wait
//	latchkey.lost              {hold}      counter    holds that ended without Unlock, by reason
//	latchkey.renewals          {renewal}   counter    renewals, by result: ok or failed
//	latchkey.renewal.lag       s           histogram  how late a renewal was sent
//	latchkey.undone            {acquire}   counter    failed acquires that had been granted, and were taken back
//	latchkey.missed_wakeups    {acquire}   counter    waiters that a recheck served and no message
//	latchkey.slow_waits        {report}    counter    reports of calls that wait for long ([latchkey.WithSlowWait])
//	latchkey.resubscribed      {connection} counter   connections for wake-ups that were replaced
//	latchkey.channels_denied   {channel}   counter    Redis channels that may not be subscribed to
//
// All metrics but the last two have the attribute latchkey.kind, the package of
// the object, and, if [Classes] returns one, latchkey.class. Names of locks are
// not attributes of metrics, because their number is unbounded. The outcomes
// (latchkey.outcome) are those of [latchkey.Outcome], the reasons
// (latchkey.reason) those of [latchkey.LossReason].
//
// # Traces
//
// An acquire that had to wait is a span "latchkey.wait", a child of the span in
// the context of the acquire. Its attributes are latchkey.kind, latchkey.class,
// latchkey.name and latchkey.outcome. An acquire that found the lock free makes
// no span. A wait that ended because the lock was not available, or because the
// caller gave up, is not an error; any other failed wait is.
package otel
