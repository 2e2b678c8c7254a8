package engine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// A caller that holds something and has waited for something else for a second
// says so, for whoever looks for a deadlock: in a key beside what it holds, by the
// holder that holds it. From a holder, as the object shows it, that key is known,
// and it is in the slot of the object. What a caller holds, its context says.

// A HeldKey is something that is held: the main key, and the holder as the object
// shows it.
type HeldKey struct{ Key, ID string }

// A Waited is something that a holder waits for.
type Waited struct {
	Kind  string // of the primitive: "rlock"
	Key   string // the main key
	Since time.Time
}

const (
	// heldUpAfter is how long a caller waits before it is published.
	heldUpAfter = time.Second
	// heldUpChecks is how often the waits are looked at.
	heldUpChecks = 250 * time.Millisecond
	// heldUpKept is how long Redis keeps what nobody renews, and heldUpRenewed how
	// often it is renewed.
	heldUpKept    = 3 * time.Second
	heldUpRenewed = time.Second
	// mostHeldUp is the most holders of a client that are published at a time.
	mostHeldUp = 100
	// maxWaited is the most bytes of what is published of a holder: readers read no
	// more of a side key.
	maxWaited = 2000
)

// heldUp publishes what the holders of a client wait for.
type heldUp struct {
	engine    *Engine
	published map[HeldKey]published
	said      map[*attempt]string // what is published of a call
	denied    bool                // the server has refused it, and that was logged
}

// A published is the value of a key, and when it was written.
type published struct {
	text string
	at   time.Time
}

// lookForHeldUp returns what publishes what holders wait for.
func (e *Engine) lookForHeldUp() looker {
	g := &heldUp{engine: e, published: map[HeldKey]published{}}
	return looker{every: heldUpChecks, look: g.look}
}

// look publishes what is new, renews what is old, and removes what is over.
func (g *heldUp) look(waits []waiting) {
	texts := g.texts(waits)
	if len(texts) == 0 && len(g.published) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(g.engine.gate.Late(), heldUpRenewed)
	defer cancel()
	var over []string
	for k := range g.published {
		if _, ok := texts[k]; !ok {
			delete(g.published, k)
			over = append(over, names.Waits(k.Key, k.ID))
		}
	}
	for k, text := range texts {
		if before := g.published[k]; text != before.text || time.Since(before.at) >= heldUpRenewed {
			g.published[k] = published{text, time.Now()}
			g.write(ctx, run.Options{}, text, heldUpKept, names.Waits(k.Key, k.ID))
		}
	}
	if !g.engine.cluster && len(over) > 0 {
		g.write(ctx, run.CleanUp, "", 0, over...)
		return
	}
	for _, key := range over { // each may be in another slot
		g.write(ctx, run.CleanUp, "", 0, key)
	}
}

// write writes a text, or removes it with a lease of 0. Nothing depends on it: what is
// refused or lost is written again when it is renewed.
func (g *heldUp) write(ctx context.Context, opts run.Options, text string, lease time.Duration, keys ...string) {
	err := g.engine.writeTexts(ctx, opts, text, keys, slices.Repeat([]time.Duration{lease}, len(keys)))
	if err != nil && run.Classify(err) == run.Permanent && !g.denied {
		g.denied = true
		g.engine.cfg.Logger.Warn("latchkey: what holders wait for is not published", "err", err)
	}
}

// texts returns what there is to publish of those who have waited for long enough.
func (g *heldUp) texts(waits []waiting) map[HeldKey]string {
	held := heldBy{engine: g.engine}
	all := map[HeldKey][]waiting{}
	for _, w := range waits {
		if time.Since(w.began()) < heldUpAfter {
			continue
		}
		for _, k := range held.in(w.caller.id) {
			switch {
			case k == (HeldKey{w.spec.Key, w.id}): // it takes it once more
			case all[k] == nil && len(all) == mostHeldUp:
			case slices.ContainsFunc(all[k], func(o waiting) bool { return o.spec.Key == w.spec.Key && o.spec.Kind == w.spec.Kind }):
			default:
				all[k] = append(all[k], w)
			}
		}
	}
	texts := make(map[HeldKey]string, len(all))
	before := g.said
	g.said = make(map[*attempt]string, len(before))
	for k, ws := range all {
		if text := g.text(ws, before); text != "" {
			texts[k] = text
		}
	}
	return texts
}

// text returns what is published of a holder, as far as there is room.
func (g *heldUp) text(waits []waiting, before map[*attempt]string) string {
	var parts []string
	size := 0
	for _, w := range waits {
		// It stays the same, however the estimate of the server's clock changes.
		part := before[w.attempt]
		if part == "" {
			part = Waited{Kind: w.spec.Kind, Key: w.spec.Key, Since: g.engine.Clock.At(w.began())}.String()
		}
		g.said[w.attempt] = part
		if size+len(part) <= maxWaited {
			parts = append(parts, part)
			size += len(part) + 1
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// heldBy finds what callers hold.
type heldBy struct {
	engine   *Engine
	byHolder map[uint64][]HeldKey // made on demand
}

// in returns what a caller holds: by the Holds of which its ctx is the Context, or by
// the holder that it carries.
func (b *heldBy) in(id *identity) []HeldKey {
	all := map[HeldKey]bool{}
	for ; id != nil; id = id.outer {
		for _, k := range b.of(id) {
			all[k] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

func (b *heldBy) of(id *identity) []HeldKey {
	if id.hold != nil {
		return id.hold.Holds(b.engine)
	}
	if b.byHolder == nil {
		b.byHolder = b.engine.heldByHolders()
	}
	return b.byHolder[id.holder]
}

// heldByHolders returns what each holder of this client holds.
func (e *Engine) heldByHolders() map[uint64][]HeldKey {
	held := map[uint64][]HeldKey{}
	for _, hd := range e.holdings.all() {
		hd.mu.Lock()
		if len(hd.holds) > 0 {
			held[hd.key.holder] = append(held[hd.key.holder], hd.shownLocked(hd.holds[0].spec))
		}
		hd.mu.Unlock()
		hd.leave()
	}
	return held
}

// shownLocked returns what hd is, as the object shows it. s is what one of its holds is of.
func (hd *holding) shownLocked(s *Spec) HeldKey {
	if s.Half {
		return HeldKey{hd.key.key, hd.field}
	}
	return HeldKey{hd.key.key, hd.holder()} // a suffix is not in Redis
}

// A waitedText is a Waited in JSON. Later versions may add fields.
type waitedText struct {
	Kind  string `json:"kind"`
	Key   string `json:"key"`
	Bytes []byte `json:"key_base64,omitempty"` // instead, where the key is not UTF-8
	Since int64  `json:"since"`                // ms, by the server's clock
}

// String returns w in JSON.
func (w Waited) String() string {
	t := waitedText{Kind: w.Kind, Key: w.Key, Since: w.Since.UnixMilli()}
	if !utf8.ValidString(w.Key) {
		t.Key, t.Bytes = "", []byte(w.Key)
	}
	text, _ := json.Marshal(t) // never fails
	return string(text)
}

// ParseWaited parses the value of the key of what a holder waits for. Any other text
// is of nothing.
func ParseWaited(text string) (all []Waited) {
	var ts []waitedText
	if json.Unmarshal([]byte(text), &ts) != nil {
		return nil
	}
	for _, t := range ts {
		w := Waited{Kind: t.Kind, Key: t.Key, Since: time.UnixMilli(t.Since)}
		if len(t.Bytes) > 0 {
			w.Key = string(t.Bytes)
		}
		if w.Key != "" {
			all = append(all, w)
		}
	}
	return all
}
