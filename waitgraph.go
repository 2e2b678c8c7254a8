package latchkey

import "github.com/latchkey-go/latchkey/internal/engine"

// WithWaitGraph publishes what callers of this Client wait for that hold
// something, so that `latchkey explain` can follow the holder of a lock to what
// that waits for, across processes, and name a deadlock. Default: nothing is
// published.
//
// A caller that has waited for a second for a lock, a permit or a count is
// published in one key beside each object that it holds. Every second the key is
// written anew; it is removed within a quarter of a second when the caller no
// longer waits, and expires three seconds after its client has died. Nothing is
// sent for shorter waits, and for callers that hold nothing. At most 100 holders
// of a Client are published at a time.
//
// What a caller holds, the context of the waiting call says: the Holds whose
// Context it is, or is derived from, as the ctx that Do passes to its function;
// and whatever this Client holds under the holder of WithHolder. A caller that
// waits with neither, such as one that uses the outer ctx inside Do, is not
// published. Permits are not held in this sense, nor are the locks of another
// Client. Of a multi-lock the wait for a member is published, and of a Redlock
// that for its first member. Goroutines that share a holder of WithHolder count as
// one: what one of them holds, all who wait are said to hold.
func WithWaitGraph() Option {
	return optionFunc(func(c *engine.Config) { c.WaitGraph = true })
}
