package engine

// A Waiter is one who waits in this client.
type Waiter struct {
	ID  string // as Redis will name the holder; empty for what has none
	Who Who
}

// Holders returns who of this client holds key, by the field in the hash.
func (e *Engine) Holders(key string) map[string]Who {
	es := &e.entries
	var ents []*entry
	es.mu.Lock()
	for k, ent := range es.m {
		if k.key == key {
			ents = append(ents, ent)
		}
	}
	es.mu.Unlock()
	mine := map[string]Who{}
	for _, ent := range ents {
		ent.mu.Lock()
		if len(ent.holds) > 0 {
			who := e.who("", ent.holds[0].since)
			mine[ent.field] = who
			if _, has := mine[ent.holder()]; !has {
				mine[ent.holder()] = who // what follows it is not always in Redis
			}
		}
		ent.mu.Unlock()
	}
	return mine
}

// Waiters returns who of this client waits for key: in order for each line.
func (e *Engine) Waiters(key string) []Waiter {
	var waiters []Waiter
	for _, c := range e.lines.Claims() {
		c, ok := c.(interface{ asked() (*call, string) })
		if !ok {
			continue
		}
		if about, id := c.asked(); about.spec.Key == key {
			waiters = append(waiters, Waiter{ID: id, Who: e.who(about.cfg.Label, about.began())})
		}
	}
	return waiters
}

// asked returns the call that a claim is, and how Redis will name the holder;
// empty for what has none.
func (c *call) asked() (*call, string) { return c, "" }

func (c *claim) asked() (*call, string) {
	id := c.spec.engine.HolderID(c.holder)
	if c.spec.Half {
		id += c.spec.Suffix
	}
	return &c.call, id
}
