// Package sim has no code but tests: many workers use all primitives at once in a
// bubble of fake time, against the in-memory server, through connections that
// break as a seed says, while a ledger checks what is promised.
package sim
