// Package lua holds the scripts that latchkey runs in Redis, one file each.
//
// A script is constant text: names and numbers arrive as KEYS and ARGV. Each
// file opens with its contract (KEYS, ARGV, what it returns), and each may be
// run twice with the same arguments without doing more than running it once,
// because a script is told the state to reach, never the step to take.
//
// The package serves this module; it may change in a minor version.
package lua
