package engine

// A Waiter is a waiter of this client.
type Waiter struct {
	ID  string // as Redis will name the holder; empty if there is none
	Who Who
}

// Holders returns the holders of key in this client, by the field in the hash.
func (e *Engine) Holders(key string) map[string]Who {
	es := &e.holdings
	var hds []*holding
	es.mu.Lock()
	for k, hd := range es.m {
		if k.key == key {
			hds = append(hds, hd)
		}
	}
	es.mu.Unlock()
	mine := map[string]Who{}
	for _, hd := range hds {
		hd.mu.Lock()
		if len(hd.holds) > 0 {
			who := e.who("", hd.holds[0].since)
			mine[hd.field] = who
			if _, has := mine[hd.holder()]; !has {
				mine[hd.holder()] = who // the suffix is not always in Redis
			}
		}
		hd.mu.Unlock()
	}
	return mine
}

// Waiters returns the waiters for key in this client, in order for each line.
func (e *Engine) Waiters(key string) []Waiter {
	var waiters []Waiter
	for _, c := range e.waiting() {
		if c.spec.Key == key {
			waiters = append(waiters, Waiter{ID: c.id, Who: e.who(c.cfg.Label, c.began())})
		}
	}
	return waiters
}

// asked returns the attempt and the name that the holder will have in Redis, or
// "" if it will have none.
func (c *attempt) asked() (*attempt, string) { return c, "" }

func (c *lockAttempt) asked() (*attempt, string) {
	id := c.spec.engine.HolderID(c.holder)
	if c.spec.Half {
		id += c.spec.Suffix
	}
	return &c.attempt, id
}
