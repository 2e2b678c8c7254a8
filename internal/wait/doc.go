// Package wait is where the callers of a client wait for something in Redis.
//
// Waiters for one thing stand in a line in memory, first come first served.
// Only the head of the line asks Redis. A hint, which says that somebody has
// released something, wakes the head. When the head is granted the thing, or
// gives up, the next waiter becomes the head. So any number of waiters costs
// one subscription, and one script for each release.
//
// The package knows nothing of Redis, its channels or its keys. Its callers
// pass a Claim, which asks, and a function that opens hints.
package wait
