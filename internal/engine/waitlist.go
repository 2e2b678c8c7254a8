package engine

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/pubsub"
)

// A release may also grant a lock without a queue to a waiter of another
// client, so that the waiter need not ask. A client that waits and listens has
// an entry in a waitlist beside the lock, for the head of its line. The release
// takes the first entry, makes its holder the holder of the lock, and publishes
// that on a Redis channel of that client alone. If that client is gone, nobody
// is granted the lock. If somebody listens who is not in the waitlist, such as
// Redisson, the lock is left free.

// listKept is how long Redis keeps a waitlist. Each entry renews that.
const listKept = 15 * time.Second

// ListKept returns listKept in ms.
func ListKept() int64 { return listKept.Milliseconds() }

func (e *Engine) gives(s *Spec) bool { return e.Gives(s.List) }

// Gives reports whether releases grant a lock to the waiters in its waitlist,
// whose key is list, if it has one. They do so only if the server knows all who
// listen; in a cluster they may listen at a replica or at the earlier node of a
// slot.
func (e *Engine) Gives(list string) bool {
	if list == "" || e.cfg.Open || e.cfg.Acks.On() {
		return false
	}
	return !e.cluster && e.notifier.Mode() == pubsub.Plain
}

// waitEntry returns the waitlist entry for c, or "" if c cannot be granted the
// lock by a release: a holder that may come again could receive an old message.
func (c *lockAttempt) waitEntry(lease time.Duration) string {
	if !c.fresh || !c.renewed() || c.cfg.Label != "" || !c.spec.engine.lines.Listens(c.spec.Line) {
		return ""
	}
	return c.holding.waitlistEntry(c.spec, lease)
}

// An ownEntry is a holder's waitlist entry and its nonce. A grant message
// repeats the nonce, which only this client and clients that can read the
// waitlist know. A nonce is valid once. It is no longer valid after it has been
// received, or if the message may have been published while this client did not
// listen.
type ownEntry struct {
	entry string
	nonce string // empty if it is no longer valid
	since uint64 // how many subscriber connections the client had lost
}

// waitlistEntry returns the entry for hd: "<holder> <lease, ms> <inbox>
// <nonce>", with " f" appended if it needs a fencing token. As long as its
// nonce is valid, the entry stays the same and keeps its place.
func (hd *holding) waitlistEntry(s *Spec, lease time.Duration) string {
	e, o := hd.engine, &hd.ownEntry
	since := e.notifier.Lost()
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if o.nonce != "" && o.since == since {
		return o.entry
	}
	b := make([]byte, 0, 192)
	b = append(append(b, hd.field...), ' ')
	b = append(strconv.AppendInt(b, lease.Milliseconds(), 10), ' ')
	request := b[strings.LastIndexByte(hd.field, ':')+1:]
	b = append(append(b, e.inbox...), ' ')
	at := len(b)
	b = e.appendNonce(b, s.Key, request, e.nonces.Add(1))
	end := len(b)
	if s.Fenced {
		b = append(b, " f"...)
	}
	o.entry, o.since = string(b), since
	o.nonce = o.entry[at:end]
	return o.entry
}

// appendNonce appends a nonce for a request for the lock with that key:
// "<count>-<tag>". The count makes each nonce different.
func (e *Engine) appendNonce(b []byte, key string, request []byte, count uint64) []byte {
	var buf [256]byte
	h := append(append(append(buf[:0], key...), ' '), request...)
	h = append(strconv.AppendUint(h, count, 36), ' ')
	sum := sha256.Sum256(append(h, e.secret...))
	b = append(strconv.AppendUint(b, count, 36), '-')
	return hex.AppendEncode(b, sum[:16])
}

// madeNonce reports whether this client has made the nonce of g for its holder,
// valid or not.
func (e *Engine) madeNonce(s *Spec, g grantMessage) bool {
	number, rest, _ := strings.Cut(g.text, " ")
	lease, _, _ := strings.Cut(rest, " ")
	of, _, _ := strings.Cut(g.tag, "-")
	count, err := strconv.ParseUint(of, 36, 64)
	if err != nil {
		return false
	}
	nonce := e.appendNonce(nil, s.Key, []byte(number+" "+lease+" "), count)
	return subtle.ConstantTimeCompare(nonce, []byte(g.tag)) == 1
}

// useNonce reports whether nonce is the valid nonce of hd's entry. It is not
// valid any more afterwards.
func (hd *holding) useNonce(nonce string) bool {
	since := hd.engine.notifier.Lost()
	hd.mu.Lock()
	defer hd.mu.Unlock()
	o := &hd.ownEntry
	if o.nonce == "" || o.since != since || subtle.ConstantTimeCompare([]byte(o.nonce), []byte(nonce)) == 0 {
		return false
	}
	o.nonce = ""
	return true
}

// receiveListed is receive for a lock with a waitlist.
func (e *Engine) receiveListed(s *Spec, g grantMessage) bool {
	if !e.gate.Enter() {
		if !e.madeNonce(s, g) {
			return false
		}
		e.reject(s, g)
		return true
	}
	defer e.gate.Leave()
	hd := e.findID(g.id, s)
	if hd != nil {
		defer hd.leave()
	}
	good := hd != nil && hd.useNonce(g.tag)
	if !good && !e.madeNonce(s, g) {
		return false
	}
	e.waitlist.popped(s.Key, g.tag)
	switch {
	case good && e.acceptAtHead(hd, s, g):
	case hd != nil && hd.hear():
		// The attempt is asking, perhaps since before the grant, or has to ask.
		e.lines.Nudge(s.Line)
	default:
		e.reject(s, g)
	}
	return true
}

// acceptAtHead is accept for the attempt of hd, if that is still the head of
// its line and is not asking.
func (e *Engine) acceptAtHead(hd *holding, s *Spec, g grantMessage) bool {
	pl, ok := e.lines.ReserveHead(s.Line)
	if ok && pl.Claim.(*lockAttempt).holding != hd { // it has just left, and gives back what it was granted
		pl.Cancel()
		return false
	}
	return ok && e.accept(pl, g)
}

// joinWaitlist adds the waitlist change to the request of c.
func (c *lockAttempt) joinWaitlist() waitlistChange {
	e, s := c.spec.engine, c.spec
	if c.contended && c.req.Count == 1 {
		c.req.Entry = c.waitEntry(c.req.Lease)
	}
	r := e.waitlist.begin(s.Key, c.holding.field, c.req.Entry, "")
	c.req.Unlist = r.takes
	return r
}

// waitlistAfter returns what a reply shows about the waitlist.
func (c *lockAttempt) waitlistAfter(g Grant, err error) outcome {
	switch {
	case err != nil && run.Classify(err) != run.Unknown, err == nil && g.Status == NotHolder:
		return listSame
	case err != nil, g.Status == PastDeadline: // it may have been executed once before, in time
		return listUnknown
	case g.Status == Granted:
		return listCleared
	case c.req.Entry != "":
		return listEntered
	}
	return listSame
}

// listenToBoth subscribes to wake-ups and to grants for this client.
func (e *Engine) listenToBoth(s *Spec) wait.Hints {
	if !e.gives(s) {
		return hints{e.notifier.Subscribe(s.Channel)}
	}
	// In this order: a release can grant it the lock once the wake-ups arrive.
	own, all := e.notifier.SubscribeBoth(s.Channel+":"+e.inbox, func(message string) bool { return e.receive(s, message) }, s.Channel)
	return bothHints{hints{all}, own}
}

// bothHints are hints with a second subscription that gives none.
type bothHints struct {
	hints
	own *pubsub.Subscription
}

// Given reports whether a grant message would arrive.
func (h bothHints) Given() bool { return h.Live() && h.own.State() == pubsub.Live }

func (h bothHints) Close() {
	h.own.Close()
	h.hints.Close()
}
