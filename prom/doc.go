// Package prom provides metrics of latchkey clients for Prometheus.
//
//	metrics := prom.New()
//	prometheus.MustRegister(metrics)
//	client := latchkey.New(rdb, latchkey.WithObserver(metrics.Observer()))
//
// One Collector serves any number of clients of a process. It sends nothing to
// Redis.
//
// # Metrics
//
//	latchkey_wait_seconds             histogram  from the call of an acquire to its end, by outcome
//	latchkey_hold_seconds             histogram  from grant to release or loss
//	latchkey_contended_total          counter    acquires that had to wait
//	latchkey_holds                    gauge      holds and permits of this process
//	latchkey_waiting                  gauge      calls that wait
//	latchkey_lost_total               counter    holds that ended without Unlock, by reason
//	latchkey_renewals_total           counter    renewals, by result: ok or failed
//	latchkey_renewal_lag_seconds      histogram  how late a renewal was sent
//	latchkey_undone_total             counter    failed acquires that had been granted, and were taken back
//	latchkey_missed_wakeups_total     counter    waiters that a recheck served and no message
//	latchkey_slow_waits_total         counter    reports of calls that wait for long ([latchkey.WithSlowWait])
//	latchkey_resubscribed_total       counter    connections for wake-ups that were replaced
//	latchkey_channels_denied_total    counter    Redis channels that may not be subscribed to
//
// All metrics but the last two have the labels kind, the package of the object,
// and class. Names of locks are not labels, because their number is unbounded;
// class is empty unless [Classes] maps names to a few classes. The outcomes are
// those of [latchkey.Outcome], the reasons those of [latchkey.LossReason].
//
// A Grafana dashboard for these metrics is in dashboard.json.
package prom
