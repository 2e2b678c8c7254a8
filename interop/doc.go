// Package interop has no code, only tests: real Redisson, of several versions,
// and latchkey use the same objects in the same Redis.
//
// java/ is a small Maven project that drives Redisson by commands on stdin. The
// tests compile it, start it, and need a JDK (17 or later) and Maven for that.
// Without them the tests are skipped, or fail when CI or INTEROP is set.
//
//	INTEROP        releases of Redisson, as in "3.52.0,3.17.7", or "all", or "none"; default: the newest
//	INTEROP_LONG   1: the mixed stress lasts 60 s for each object, not a few seconds
package interop
