// Package lua holds the scripts that latchkey runs in Redis, one file each.
//
// A script is constant text: names and numbers arrive as KEYS and ARGV. Each
// file begins with its contract (KEYS, ARGV, what it returns). A script that
// runs twice with the same arguments takes effect once, because it is told the
// state to reach, never the step to take.
//
// The expiry comes last. A write to a key after its PEXPIRE could create the
// key anew, without an expiry, because Redis 6.2 and 7.0 read the time for each
// command of a script, and PEXPIRE deletes a key whose time is over by then. A
// script that must be allowed at the memory limit begins with a command that is
// allowed there, such as the HDEL of a field that does not exist. If the expiry
// of a new key is refused, the script deletes the key.
//
// The package serves this module; it may change in a minor version.
package lua
