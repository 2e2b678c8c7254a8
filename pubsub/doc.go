// Package pubsub notifies the waiters of a client. It keeps the pub/sub
// subscriptions of all waiters on one connection (with sharded pub/sub in a
// cluster, on one for each shard in use) and turns every message into a hint.
//
// The package knows nothing of locks and does not read payloads. A function of
// the subscriber may read a payload and suppress the hint
// ([Notifier.SubscribeFunc]). A hint means "look again" and nothing more: hints
// coalesce, some come for no reason, and a message that is published while a
// connection is being replaced is lost. Therefore every subscription also gets
// a hint when it becomes live and each time it is live again. Changes without a
// message, such as an expired key, are left to the recheck of the caller.
//
// # How it works
//
// One control goroutine decides what is subscribed where, in which order
// commands are written, and when a silent connection is given up. Each
// connection has one goroutine that writes and finally closes it, and one that
// reads and passes messages directly to the waiters. There is no goroutine and
// no timer for a channel or a subscription.
//
// A channel is Live only after Redis has confirmed it. An error reply is
// matched to the command that it answers, so one name that the ACL forbids is
// detected and reported without harm to the others.
//
// After a lost connection go-redis subscribes again by itself, to all names in
// one command, and does not check the answer. This package prevents that: after
// any error or silence it discards the redis.PubSub and fills a new one from
// the notifier's own table.
//
// # Stability
//
// The package serves this module. It is exported so that its parts can be used
// and tested on their own, and it may change in minor versions.
package pubsub
