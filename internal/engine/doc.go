// Package engine is what one client lends to its primitives: the way to run
// scripts, the notifier, the watchdog, the holders, and the one path by which
// every lock is acquired, kept and released.
//
// It imports neither the root package nor a primitive.
package engine
