package pubsub

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Mode returns how messages are carried: Plain, Sharded, Both or Off. It
// returns Auto until the servers have told the mode, and then also starts to
// ask them in the background. Publish both ways while the mode is Auto.
func (n *Notifier) Mode() Mode {
	m := Mode(n.mode.Load())
	if m != Auto {
		return m
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.asked && !n.closed {
		n.asked = true
		n.startLocked()
		n.wakeLocked()
	}
	return m
}

// ModeKnown is Mode that waits until the mode is known or ctx is done. It
// returns Auto if ctx is done first or the Notifier is closed.
func (n *Notifier) ModeKnown(ctx context.Context) Mode {
	if m := n.Mode(); m != Auto {
		return m
	}
	select {
	case <-n.modeFound:
	case <-ctx.Done():
	case <-n.ctx.Done():
	}
	return Mode(n.mode.Load())
}

// startLocked starts the control goroutine, once.
func (n *Notifier) startLocked() {
	if !n.started {
		n.started = true
		n.wg.Add(1)
		go n.control.run()
	}
}

// search asks the servers for the mode if it is needed and not known. It asks
// on a goroutine of its own; there is one search at a time.
func (c *control) search(now time.Time) {
	n := c.n
	if Mode(n.mode.Load()) != Auto || c.searching || now.Before(c.searchAt) {
		return
	}
	n.mu.Lock()
	wanted := n.asked || len(c.early) > 0
	n.mu.Unlock()
	if !wanted {
		return
	}
	c.searching = true
	n.wg.Add(1)
	go func() {
		defer n.wg.Done()
		ctx, cancel := context.WithTimeout(n.ctx, n.cfg.dialBound())
		defer cancel()
		n.post(event{kind: evMode, mode: askMode(ctx, n.cluster)})
	}()
}

// found handles the result of a search. Auto means no result.
func (c *control) found(m Mode, now time.Time) {
	c.searching = false
	if m == Auto {
		c.searchAt = now.Add(backoff(c.searches))
		c.searches++
		return
	}
	c.n.mode.Store(int32(m))
	close(c.n.modeFound)
	for _, ch := range c.early {
		if !ch.left {
			c.admit(ch, now)
		}
	}
	c.early = nil
}

// askMode asks all masters of a cluster whether they support sharded pub/sub,
// as Redisson asks one of them. It returns the mode that follows, or Auto if no
// master answers.
func askMode(ctx context.Context, rdb *redis.ClusterClient) Mode {
	var mu sync.Mutex
	var answers []error
	single := false
	asked := make(chan struct{})
	go func() { // go-redis may outlast ctx at a frozen master
		defer close(asked)
		// The error is that of one node, which is in answers.
		_ = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			err := sharded(ctx, node)
			alone := false
			if rdb.Options().ClusterSlots != nil { // the mode matters even if the other question is refused
				var lost error
				alone, lost = standalone(ctx, node)
				err = cmp.Or(lost, err)
			}
			mu.Lock()
			answers = append(answers, err)
			single = alone && len(answers) == 1
			mu.Unlock()
			return nil
		})
	}()
	all := false
	select {
	case <-asked:
		all = true
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	if all && single {
		// The cluster is one master behind Sentinels, as
		// NewFailoverClusterClient makes it. Clients that know it as such,
		// Redisson among them, use Plain there.
		return Plain
	}
	return conclude(answers)
}

// standalone reports whether a server is not a node of a cluster, although a
// ClusterClient with a ClusterSlots function takes it for one. An error means
// that there was no answer.
func standalone(ctx context.Context, node *redis.Client) (bool, error) {
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello") // no user can be denied HELLO
	err := node.Process(ctx, hello)
	var reply redis.Error
	if errors.As(err, &reply) {
		return false, nil
	}
	return err == nil && hello.Val()["mode"] == "standalone", err
}

// errNotSharded says that a server does not support sharded pub/sub.
var errNotSharded = errors.New("no sharded pub/sub")

// sharded asks a server whether it supports sharded pub/sub. It returns nil if
// it does, and errNotSharded if the server's own command table says that it
// does not. The text of an error proves nothing, because it may be that of a
// proxy.
func sharded(ctx context.Context, node *redis.Client) error {
	err := node.Do(ctx, "pubsub", "shardnumsub", "0").Err()
	var reply redis.Error
	if err == nil || !errors.As(err, &reply) || redis.HasErrorPrefix(err, "NOPERM") {
		return err
	}
	infos, failed := node.Do(ctx, "command", "info", "spublish").Slice()
	switch {
	case failed != nil:
		return failed
	case len(infos) == 1 && infos[0] == nil:
		return errNotSharded
	}
	return err
}

// conclude returns the mode that follows from the masters' answers, which are
// results of sharded. If the answers differ, as during an upgrade, or a user
// may not ask, the mode is Both, which is right for every fleet; waiters poll
// for what a server then refuses. Any other error counts as no answer.
func conclude(answers []error) Mode {
	var with, without, silent bool
	for _, err := range answers {
		switch {
		case err == nil:
			with = true
		case errors.Is(err, errNotSharded):
			without = true
		case redis.HasErrorPrefix(err, "NOPERM"):
			silent = true
		}
	}
	switch {
	case silent || with && without:
		return Both
	case with:
		return Sharded
	case without:
		return Plain
	}
	return Auto
}
