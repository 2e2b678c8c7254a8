// Package chaos is the root of the module that tries to prove latchkey wrong. It
// has no code of its own; its rooms are
//
//	history   what clients called and were answered, on one clock
//	model     what may happen, and checkers that say when something else did
//	stage     the servers, proxies and child processes that a run plays on
//	clock     clocks of servers and child processes that can be moved
//	nemesis   the faults: how each is done, undone, and proved to have happened
//	workload  random calls of every primitive, in this process and in children
//	campaign  rounds of workload under faults, each checked before the next
//	plain     a load without faults, which must leave nothing in Redis
//	figures   single numbers: lost replies, ghosts, hand-offs, cancellations
//	report    report.json and the text for docs/evidence
//	matrix    each kind of fault against each primitive, with what is right there
//	seeded    bugs put into the library one by one, which its tests must find
//	cmd       the commands: chaos, matrix, seeded
//
// Nothing here is for users of the library.
package chaos
