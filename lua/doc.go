// Package lua holds the scripts that latchkey runs in Redis, one file each.
//
// A script is constant text: names and numbers arrive as KEYS and ARGV. Each
// file opens with its contract (KEYS, ARGV, what it returns), and each may be
// run twice with the same arguments without doing more than running it once,
// because a script is told the state to reach, never the step to take.
//
// The expiry comes last: what is written to a key behind its PEXPIRE may make the key
// anew, without an end, since Redis 6.2 and 7.0 take the time anew for each command of a
// script, and PEXPIRE deletes a key whose time is over by then. What has to be allowed at
// the memory limit begins with a command that is, such as the HDEL of a field that is not
// there. Where a new key is written and its expiry is refused, the key is deleted.
//
// The package serves this module; it may change in a minor version.
package lua
