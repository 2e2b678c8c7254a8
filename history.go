package latchkey

import (
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/history"
	"github.com/latchkey-go/latchkey/internal/names"
)

// WithHistory keeps what happened lately, for `latchkey history` and the page of
// package ui: the last n events, or up to some hundred more, of all clients with
// this option and the same key prefix, in one stream of Redis. n is 1 to a million; if
// clients differ, that of the last to write counts. Default: nothing is kept.
//
// An event is what Observer.Acquired, Released and Lost report of a hold or a
// permit, with its holder, its label and, where it has a label, the machine and the
// process. A re-entry is a hold of its own. Of a multi-lock each member has events,
// and the whole has none; those of a group are of the whole. A lock that passes from a
// caller to the next one in this process is released and acquired, in either order and
// by one holder. An acquire of a semaphore and the end of a wait for a latch are
// acquired and never released. A ForceUnlock that found a holder is forced, by the
// process that called it; the loss of that holder follows when it learns of it. A lease
// that is renewed when less than a third of it is left is late, which tells of a
// process, a machine or a network that stalls.
//
// Callers never wait for the history. A client sends its events at most every 200 ms, or
// 64 at a time, in one command. An event is dropped, and counted by
// Stats.HistoryDropped, where 1024 wait already, and where Redis does not take it or
// does not answer within a second; the first time, the logger is told. After a crash
// up to 200 ms are missing. Close writes what is left, for up to a second more. Redis
// at its memory limit takes events all the same, because the stream has its length, and
// removes the stream when nobody has written to it for a week.
func WithHistory(n int) Option {
	if n < 1 || n > mostHistory {
		badOption("WithHistory of %d: from 1 to %d", n, mostHistory)
	}
	return optionFunc(func(c *engine.Config) { c.History = n })
}

const mostHistory = 1_000_000

// newHistory returns the history that cfg asks for, or nil, and makes it receive the
// events.
func newHistory(cfg *engine.Config) *history.Writer {
	if cfg.History == 0 {
		return nil
	}
	w := history.New(names.History(cfg.KeyPrefix), cfg.History, cfg.Logger)
	cfg.Event = w.Add
	return w
}
