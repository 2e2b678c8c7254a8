package object

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/text"
)

// About describes a side key by its name alone, without asking Redis. It
// returns "" for any other key.
func About(name string) string {
	owner, side := names.Owner(name)
	of := text.Name(owner)
	switch side {
	case names.SideToken:
		return "the counter of the fencing tokens of " + of
	case names.SideQueue:
		return "a part of the queue of " + of
	case names.SideTimeout:
		return "a part of " + of + ", with leases"
	case names.SideNote:
		return "a note of latchkey about " + of
	case names.SideRun:
		return "a note of latchkey about runs of the job " + of
	case names.SideMemo:
		return "what latchkey has kept of a call under " + of
	case names.SideWakeUps:
		return "the Redis channel of " + of
	}
	return ""
}

// ofJob describes the lock of a job. It returns "" for any other name.
func ofJob(name string) string {
	job, fire, ok := names.JobOf(name)
	switch ms, err := strconv.ParseInt(fire, 10, 64); {
	case !ok:
		return ""
	case err != nil:
		return "the lock of the job " + text.Name(job)
	default:
		return "the lock of the job " + text.Name(job) + " for " + text.Instant(time.UnixMilli(ms))
	}
}

// JobLock returns the name of the lock of a job for a fire, or for all fires.
func JobLock(job string, fire time.Time, all bool) string {
	if all {
		return names.Fire(job, "")
	}
	return names.Fire(job, strconv.FormatInt(fire.UnixMilli(), 10))
}

// kindTexts are the kinds in words.
var kindTexts = map[latchkey.Kind]string{
	latchkey.KindLock:            "a lock",
	latchkey.KindFair:            "a fair lock",
	latchkey.KindReadWrite:       "a read-write lock",
	latchkey.KindMultiLock:       "a multi-lock on a group",
	latchkey.KindSemaphore:       "a semaphore",
	latchkey.KindPermitSemaphore: "a semaphore whose permits have ids",
	latchkey.KindLatch:           "a latch",
	latchkey.KindCounter:         "a number, as semaphores and latches are",
}

// WhatIs describes what a name stands for in Redis.
func WhatIs(ctx context.Context, client *latchkey.Client, name string) string {
	if text := About(name); text != "" {
		return text
	}
	info, err := client.Info(ctx, name)
	if err == nil && info.Kind != latchkey.KindFree {
		return kindTexts[info.Kind]
	}
	var e *latchkey.Error
	if errors.Is(err, latchkey.ErrKeyConflict) && errors.As(err, &e) {
		if _, text, ok := strings.Cut(e.Err.Error(), latchkey.ErrKeyConflict.Error()+": "); ok {
			return text
		}
	}
	return "something else" // it was a moment ago, or Redis does not tell
}
