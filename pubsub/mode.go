package pubsub

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Mode returns how messages are carried: Plain, Sharded, Both or Off. It is Auto
// as long as nobody knows, and then the servers are asked, in the background:
// whoever publishes meanwhile should do so both ways.
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

// ModeKnown is Mode that waits for the servers' answer, or until ctx is done: then
// it is Auto, as it is once the Notifier is closed.
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

// search asks the servers, if the mode is not known and somebody needs it. It
// runs apart; one search at a time.
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

// found takes in what a search has found: Auto for nothing.
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

// askMode asks all masters of a cluster whether they have sharded pub/sub, as
// Redisson asks one of them, and returns what follows: Auto when none answers.
func askMode(ctx context.Context, rdb *redis.ClusterClient) Mode {
	var mu sync.Mutex
	var answers []error
	single := false
	asked := make(chan struct{})
	go func() { // go-redis may keep us beyond ctx, at a master that is frozen
		defer close(asked)
		// The error is that of one node, and among the answers.
		_ = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			err := sharded(ctx, node)
			alone := false
			if rdb.Options().ClusterSlots != nil { // which counts, also where the other answer is refused
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
		// One master behind Sentinels, as NewFailoverClusterClient has it: whoever knows
		// it for what it is, as Redisson does, uses Plain there.
		return Plain
	}
	return conclude(answers)
}

// standalone reports whether a server is no node of a cluster, though a
// ClusterClient that was told its slots takes it for one. An error says that there was
// no answer.
func standalone(ctx context.Context, node *redis.Client) (bool, error) {
	hello := redis.NewMapStringInterfaceCmd(ctx, "hello") // which no user can be denied
	err := node.Process(ctx, hello)
	var reply redis.Error
	if errors.As(err, &reply) {
		return false, nil
	}
	return err == nil && hello.Val()["mode"] == "standalone", err
}

// errNotSharded says that a server has no sharded pub/sub.
var errNotSharded = errors.New("no sharded pub/sub")

// sharded asks a server whether it has sharded pub/sub: nil when it has, errNotSharded
// when it has not, as its own table of commands says. The text of an error may be that of
// a proxy, and tells nothing.
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

// conclude returns the mode that follows from the masters' answers, as sharded returns
// them. Where they differ, as during an upgrade, or may not tell, it is Both, which is
// right for every fleet; what a server then refuses is polled for. Any other error is none.
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
