// Package handover has the tests of how a lock goes from one who has it to the next one:
// in memory, by Redis to another client, and when either is gone by then. They use the
// public surface of rlock, in fake time.
package handover
