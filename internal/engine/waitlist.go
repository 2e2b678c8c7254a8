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

// A lock without a queue, too, may be given away as it is given back, so that
// whoever waits for it in another client need not ask. A client that waits and
// listens has an entry in a list beside the lock: of the head of its line. The
// release takes the first entry, makes its holder that of the lock, and says so on
// a Redis channel of that client alone; nobody hears, and nobody is given it, when
// the client is gone. Where anybody listens who is not in the list, such as
// Redisson, the lock is open to all as ever.

// listKept is for how long Redis keeps such a list. It is renewed with each entry.
const listKept = 15 * time.Second

// ListKept returns listKept in ms.
func ListKept() int64 { return listKept.Milliseconds() }

func (e *Engine) gives(s *Spec) bool { return e.Gives(s.List) }

// Gives reports whether a lock is given to those in that list of its own, if it has
// one: where the server knows all who listen. In a cluster they may listen at a
// replica, or where a slot was before.
func (e *Engine) Gives(list string) bool {
	if list == "" || e.cfg.Open || e.cfg.Acks.On() {
		return false
	}
	return !e.cluster && e.notifier.Mode() == pubsub.Plain
}

// waitEntry returns the entry for the list of c's lock, empty if c cannot be given it:
// a holder that may come more than once could be told of an earlier time.
func (c *lockAttempt) waitEntry(lease time.Duration) string {
	if !c.fresh || !c.renewed() || c.cfg.Label != "" || !c.spec.engine.lines.Listens(c.spec.Line) {
		return ""
	}
	return c.holding.waitlistEntry(c.spec, lease)
}

// An ownEntry is a holder's entry for the waitlist and the nonce in it. Who grants it the
// lock repeats that nonce, which nobody knows but this client and who can read the list. It is
// good once: not again when it has been heard, nor when it may have been said while this
// client did not listen.
type ownEntry struct {
	entry string
	nonce string // empty when it is not good any more
	since uint64 // how many subscribing connections the client had lost
}

// waitlistEntry returns the entry for hd: "<holder> <lease, ms> <inbox> <nonce>", and " f" for
// one who needs a fencing token. As long as its nonce is good that is the same one, which
// keeps its place.
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

// appendNonce appends a nonce for who asks for the lock with that key: "<count>-<tag>". The
// count makes it another one each time.
func (e *Engine) appendNonce(b []byte, key string, request []byte, count uint64) []byte {
	var buf [256]byte
	h := append(append(append(buf[:0], key...), ' '), request...)
	h = append(strconv.AppendUint(h, count, 36), ' ')
	sum := sha256.Sum256(append(h, e.secret...))
	b = append(strconv.AppendUint(b, count, 36), '-')
	return hex.AppendEncode(b, sum[:16])
}

// madeNonce reports whether g has a nonce that this client has made for its holder, good or
// not any more.
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

// useNonce reports whether nonce is that of the entry for hd, and good; from then on it
// is not.
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

// receiveListed is receive for a lock that is given to those in a list.
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
		// It is asking, perhaps since before it was given the lock, or has to.
		e.lines.Nudge(s.Line)
	default:
		e.reject(s, g)
	}
	return true
}

// acceptAtHead is accept for the attempt of hd, if that is the head of its line yet and does not
// ask.
func (e *Engine) acceptAtHead(hd *holding, s *Spec, g grantMessage) bool {
	pl, ok := e.lines.ReserveHead(s.Line)
	if ok && pl.Claim.(*lockAttempt).holding != hd { // it has just left, and gives back what it was given
		pl.Cancel()
		return false
	}
	return ok && e.accept(pl, g)
}

// joinWaitlist adds to the request of c what it says about the list.
func (c *lockAttempt) joinWaitlist() waitlistChange {
	e, s := c.spec.engine, c.spec
	if c.waiting && c.req.Count == 1 {
		c.req.Entry = c.waitEntry(c.req.Lease)
	}
	r := e.waitlist.begin(s.Key, c.holding.field, c.req.Entry, "")
	c.req.Unlist = r.takes
	return r
}

// waitlistAfter returns what an answer says of the list.
func (c *lockAttempt) waitlistAfter(g Grant, err error) outcome {
	switch {
	case err != nil && run.Classify(err) != run.Unknown, err == nil && g.Status == NotHolder:
		return listSame
	case err != nil, g.Status == PastDeadline: // it may have been carried out once before, in time
		return listUnknown
	case g.Status == Granted:
		return listCleared
	case c.req.Entry != "":
		return listEntered
	}
	return listSame
}

// listenToBoth listens for wake-ups, and for what this client is given.
func (e *Engine) listenToBoth(s *Spec) wait.Hints {
	if !e.gives(s) {
		return hints{e.notifier.Subscribe(s.Channel)}
	}
	// In this order: it can be given the lock once the wake-ups flow.
	own, all := e.notifier.SubscribeBoth(s.Channel+":"+e.inbox, func(message string) bool { return e.receive(s, message) }, s.Channel)
	return bothHints{hints{all}, own}
}

// bothHints are hints with a second subscription beside them, which gives none.
type bothHints struct {
	hints
	own *pubsub.Subscription
}

// Given says whether one would hear of what one is given.
func (h bothHints) Given() bool { return h.Live() && h.own.State() == pubsub.Live }

func (h bothHints) Close() {
	h.own.Close()
	h.hints.Close()
}
