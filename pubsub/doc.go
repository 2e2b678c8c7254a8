// Package pubsub is the unlock notifier of a client: it keeps the pub/sub
// subscriptions of all its waiters on one connection (with sharded pub/sub in a
// cluster: one per shard in use) and turns every message into a hint.
//
// It knows nothing of locks and does not read payloads: a function of the
// subscriber's may, and make the hint unnecessary ([Notifier.SubscribeFunc]). A hint
// says "look again", nothing more: hints coalesce, some come for no reason, and a message
// that was published while a connection was being replaced is lost for good.
// That is why every subscription also gets a hint when it becomes live and
// every time it comes back; what is missed otherwise (an expired key, a message
// that nobody sent) is for the caller's own recheck.
//
// # How it works
//
// One control goroutine decides everything: what is subscribed where, in which
// order commands are written, when a silent connection is given up. Each
// connection has a goroutine that writes and finally closes it, and one that
// reads; a message is handed from the reader to the waiters directly. There is no
// goroutine and no timer per channel or per subscription.
//
// A channel is Live only after Redis has confirmed it. An error reply is matched
// to the command it answers, so one name that the ACL forbids is found out, and
// reported, without harm to the others.
//
// go-redis re-subscribes by itself after a lost connection, all names in one
// command and without looking at the answer. This package never lets it: any
// error or silence throws the whole redis.PubSub away, and a new one is filled
// from the notifier's own table.
//
// # Stability
//
// The package serves this module. It is exported so that its parts can be used
// and tested on their own, and may change in minor versions.
package pubsub
