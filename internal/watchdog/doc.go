// Package watchdog renews leases and reports when one is lost.
//
// One goroutine and one timer serve any number of items. An item is something
// leased in Redis. It has a trust window, which is how long this process may
// believe that it holds the item. Unless its lease is fixed, the item is
// renewed every third of the lease. That also holds while the window is longer
// than the lease, because a renewal shows whether the item is still there.
// Renewals are sent in batches by a function that the caller provides. The loop
// never waits for that function, so a server that does not answer cannot hide
// the end of a window.
//
// An item is lost when a renewal reports that it is no longer ours, or when its
// window ends. A failed renewal is not a loss: it is tried again every tenth of
// the lease until the window ends.
package watchdog
