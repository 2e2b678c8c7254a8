package engine

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// resubscribed is called when the connection for wake-ups was replaced.
func (e *Engine) resubscribed(channels int) {
	e.watchdog.Recheck()
	e.cfg.Hooks.resubscribed(channels)
}

const (
	// slowAnswer is how long a reply must take in a cluster for another node to
	// have been promoted meanwhile.
	slowAnswer = time.Second
	// reloadTime is how long go-redis needs to read the state of a cluster
	// again.
	reloadTime = 200 * time.Millisecond
)

// outdated reports whether a grant, requested at asked, may be that of a node
// that is no longer a master: one that was frozen and has executed its pending
// requests after it resumed. A ClusterClient still reads that reply, unlike a
// failover client, which cuts the connection. The caller then asks once more,
// after the client has read the state of the cluster. A holder that was granted
// the lock is granted it again, and that grant is trusted.
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

// lanes returns the function by which the watchdog learns the server of an
// item, or nil if all are on one.
func (e *Engine) lanes() func(*watchdog.Item) string {
	rdb, ok := e.rdb.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	// The state that go-redis has of the cluster suffices: whoever holds
	// something has made it read the state.
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
