// Package matrix plays each kind of fault against each primitive on real servers,
// and says what was seen: one row for each fault, one column for each primitive.
//
// All columns of a row share one injection, so that a row costs a few seconds. In
// the usual scene (scene.go) there are two clients. Before the fault one holds an
// object for which the other waits; during the fault it takes a free one and gives
// another back; then the first object goes on to the waiter, and at the end
// everything must be free again and nothing left behind. What the callers saw is
// put into letters, those of plan.go, and compared with what is right in that cell.
//
// A cell that cannot be played here says so, with the reason.
package matrix
