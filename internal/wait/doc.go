// Package wait is the one place where callers wait for something in Redis.
//
// Waiters for one thing stand in line in memory, first come first served, and
// only the head of the line asks Redis. A hint (somebody released something)
// wakes the head; a head that is granted, or gives up, makes way for the next.
// So any number of waiters costs one subscription and one script call for each
// release.
//
// The package knows nothing of Redis, of Redis channels or of key names: it is
// handed a Claim to ask with and a way to listen.
package wait
