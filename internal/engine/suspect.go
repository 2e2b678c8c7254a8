package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// resubscribed is told when the connection for wake-ups was replaced.
func (e *Engine) resubscribed(channels int) {
	e.watchdog.Recheck()
	e.cfg.Hooks.resubscribed(channels)
}

const (
	// slowAnswer is how long an answer takes in a cluster at least that another
	// node may have been made the master meanwhile.
	slowAnswer = time.Second
	// reloadTime is how long go-redis needs to look at a cluster again.
	reloadTime = 200 * time.Millisecond
)

// outdated reports whether a grant asked for at that time may be that of a node
// that is no master any more: one that was frozen, and has carried out what lay
// before it when it woke. A ClusterClient still reads the answer, unlike a
// failover client, which cuts the connection. The caller asks once more then, after
// the client has looked who is the master now: who has been granted it is granted
// it again, and that grant is believed.
func (c *attempt) outdated(asked time.Time) bool {
	rdb, ok := c.spec.engine.rdb.(*redis.ClusterClient)
	if !ok || time.Since(asked) < slowAnswer || c.confirming {
		c.confirming = false
		return false
	}
	c.confirming = true
	rdb.ReloadState(context.WithoutCancel(c.ctx)) // in the background
	return true
}

// lanes returns how the watchdog learns which server has an item; nil where all
// are on one.
func (e *Engine) lanes() func(*watchdog.Item) string {
	rdb, ok := e.rdb.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	// What go-redis knows of the cluster will do. Whoever holds something has made
	// it look there.
	known, cancel := context.WithCancel(context.Background())
	cancel()
	return func(it *watchdog.Item) string {
		node, err := rdb.MasterForKey(known, it.Subject.(kept).mainKey())
		if err != nil {
			return ""
		}
		return node.Options().Addr
	}
}

func (hd *holding) mainKey() string { return hd.key.key }

func (l leased) mainKey() string { return l.spec.Key }
