// Package watchdog keeps leases alive and tells when one is over.
//
// One goroutine and one timer serve any number of items. An item is something
// leased in Redis: it has a trust window (how long this process may go on
// believing that it holds it) and, unless its lease is fixed, a renewal every
// third of that lease, also while the window is longer: it tells whether the item
// is still there. Renewals go out in batches through a function that is
// handed in; the loop never waits for one, so a server that does not answer
// cannot hide the end of a window.
//
// An item is lost when a renewal says that it is not ours any more, or when its
// window ends. One failed renewal is not a loss: it is tried again every tenth
// of the lease until the window ends.
package watchdog
