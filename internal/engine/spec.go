package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/internal/wait"
	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A Spec describes one lock to the acquire path. A primitive makes it in its
// constructor, and it never changes.
type Spec struct {
	Kind string // of the primitive, for errors and observers: "rlock"
	Name string // as the user gave it
	Key  string // the main key
	// Scope is what a Hold's Context counts for: locks with one scope share the
	// holder.
	Scope string
	// Line is the line in which the waiters of this process stand. Locks that
	// wait for the same thing in the same way share it.
	Line string
	// Channel is the Redis channel of wake-ups; empty if nobody publishes.
	Channel string
	// Suffix follows the holder in the field of the hash.
	Suffix string
	// Shown returns what Redis shows of a holder with the Suffix, and a field of
	// the hash that the holder has while it has the lock. If it is nil, both are
	// the holder.
	Shown func(holder string) (who, field string)
	// Shared is set if several holders may have the lock at once, so that a
	// grant to one waiter does not exclude the next.
	Shared bool
	// Half is set for one half of a pair on one key; Other is then the Suffix
	// of the other half. A holder that has the other half stands in no line,
	// because the waiters there may be waiting for it.
	Half  bool
	Other string
	// NoUpgrade refuses a first acquire by a holder that has the other half.
	NoUpgrade bool
	// Poll is the back-off without wake-ups.
	Poll wait.Backoff
	// HandsOn is set for a lock that may go from one waiter of this client to
	// the next when it is released. Fenced is set for a lock that takes a token
	// each time.
	HandsOn bool
	Fenced  bool
	// NonReentrant refuses an acquire by the present holder.
	NonReentrant bool
	// Queue is set for a lock whose waiters stand in a queue in Redis. Line
	// then names that queue, and Channel is empty, because each waiter has a
	// channel of its own.
	Queue Queue
	// List is the key of the waitlist: clients that can be granted the lock by
	// its release. It is empty if releases never grant the lock; see
	// waitlist.go.
	List string
	// Keys are all keys that one script may name together.
	Keys []string
	// Together is set if all waiters are granted at once.
	Together bool
	// Scripts know the order of KEYS and ARGV. It is nil for things that are
	// not locks.
	Scripts Scripts
	// Renewer renews things that are not locks; Scripts renew a lock.
	Renewer Renewer

	engine *Engine
	group  string            // items of one group may be renewed together
	listen func() wait.Hints // subscribes to the wake-ups; nil if nobody publishes
	err    error             // why the lock cannot be used on this server
}

// Scripts run the scripts of one kind of lock. A script that runs twice with
// the same arguments takes effect once.
type Scripts interface {
	Acquire(ctx context.Context, e *Engine, opts run.Options, r *Request) (Grant, error)
	// Release returns Granted, Unchanged, NotHolder, PastDeadline, or Refused if the
	// heir does not claim the lock.
	Release(ctx context.Context, e *Engine, opts run.Options, r *Return) (Status, error)
	Renewer
}

// A Renewer keeps leases alive.
type Renewer interface {
	// Renew extends the leases of locks of this kind, which are all in one hash
	// slot in a cluster. A nil slice with a nil error means that the request
	// came too late.
	Renew(ctx context.Context, e *Engine, opts run.Options, batch []Renewal, d run.Deadline) ([]watchdog.Result, error)
	// RenewKind names the script that Renew runs. Locks of one kind may be
	// renewed together.
	RenewKind() string
}

// A Request asks for a hold count.
type Request struct {
	Holder   string // the field of the hash
	Count    int    // the hold count to reach
	Lease    time.Duration
	Label    string
	Waits    bool          // the caller continues to wait if it is refused
	Wait     time.Duration // above 0: it joins the queue for that time; see Queue
	Ends     int64         // server ms: end of a lease that the holder was granted, or 0
	Entry    string        // for the waitlist; see Spec.List
	Unlist   []string      // entries to remove from the waitlist
	Tokens   int64         // fencing tokens to take, for an heir that hands the lock over in memory
	Deadline run.Deadline
}

// LeaseLeft returns the rest of a lease that a script reports. It returns 0,
// for unknown, if the lease has no end. For its last millisecond Redis reports
// 0, which does not mean unknown.
func LeaseLeft(ms int64) time.Duration {
	if ms < 0 {
		return 0
	}
	return max(time.Duration(ms), 1) * time.Millisecond
}

// A Grant is the reply to a Request.
type Grant struct {
	Status Status
	Left   time.Duration // of the present lease; 0 if unknown
	Token  int64
	Server int64  // on a refusal: server ms
	Ticket int64  // see wait.Answer
	Next   string // see wait.Answer

	more  int64     // tokens after Token that can be handed over
	slice time.Time // until when it may be handed over; zero: as if granted just now
	room  *room     // memory for the Hold; nil: that of the holding
}

// A Status is the result of a script.
type Status int

// The results of scripts.
const (
	Refused      Status = iota // another holder has it
	Granted                    // done as requested
	Unchanged                  // it was so before
	NotHolder                  // the holder does not have what the request builds on
	PastDeadline               // the deadline had passed; nothing changed
)

// A Return asks for a lower hold count.
type Return struct {
	Holder   string
	Count    int // the hold count to reach
	Label    string
	Linger   time.Duration // at 0: keep the lock closed for that long, under
	LingerAs string        // this holder
	Closed   closing       // what its label says
	Deadline run.Deadline
	Heir     *Request // the waiter to be granted the lock; with a queue or an Entry, only if it is the next one
	Claim    *Claim   // what the heir must claim to be passed the lock, or nil
	Leaves   bool     // remove only the holder's own entries from the waitlist
	Unlist   []string // entries to remove from the waitlist; see Spec.List
	Listens  bool     // this client listens on the Redis channel of the lock
	Alone    bool     // name no key except that of the lock
	acked    bool     // replicas must confirm it

	Returned // set by Release
}

// A Returned is the result of a Return. Scripts.Release sets the exported fields,
// as far as the reply tells them.
type Returned struct {
	Given  bool   // the heir has the lock
	Token  int64  // the heir's fencing token
	More   int64  // number of tokens after that one for the heir
	Listed int64  // server ms, if the heir's Entry is in the waitlist; otherwise 0
	Next   string // the waiter of this client whose turn it is now
	Heard  int    // number of clients that were notified, including this one; 0: unknown
	short  error  // too few replicas have confirmed it
}

// A Claim is a hash in Redis whose field accepted is the holder who claims the lock.
type Claim struct {
	Key     string
	Channel string // hears the holder to whom the lock is passed
}

// A Renewal is one lock of a batch.
type Renewal struct {
	Key    string
	Holder string
	Count  int // hold count
	Label  string
	Lease  time.Duration
}

// Prepare sets the fields of s that follow from the others. Constructors call
// it once.
func (e *Engine) Prepare(s *Spec) *Spec {
	s.engine = e
	if s.Queue == nil {
		s.Line += " " + s.Key // Redisson has one Redis channel for the names "a" and "{a}"
	}
	if s.Scripts != nil {
		s.Renewer = s.Scripts
	}
	if s.Renewer != nil {
		s.group = s.Renewer.RenewKind()
	}
	if e.cluster {
		s.group = fmt.Sprint(s.group, " ", names.Slot(s.Key))
		s.err = names.CheckSlots(s.Name, s.Keys)
	}
	switch {
	case s.Channel == "":
	case s.List != "":
		s.listen = func() wait.Hints { return e.listenToBoth(s) }
	default:
		s.listen = func() wait.Hints { return hints{e.notifier.Subscribe(s.Channel)} }
	}
	if err := e.Unfit(); err != nil {
		s.err = err
	}
	return s
}

// Unusable returns why s cannot be used on this server, or nil.
func (s *Spec) Unusable() error { return s.err }

// LockConfig is the result of the options of one acquire.
type LockConfig struct {
	Lease   time.Duration // 0: renewed by the watchdog
	Renewed time.Duration // the lease that the watchdog renews; 0: the client's
	Waits   bool          // Wait is set
	Wait    time.Duration
	MaxHold time.Duration
	AtLeast time.Duration
	Label   string
	// Permanent asks for a lease without end, which only permits have.
	Permanent bool
	// Part is set for a member of a lock that is made of others, which tells by itself
	// who has what refused.
	Part bool

	Err error // the first invalid option
}

// A LockOption changes a LockConfig. Only this module can make one.
type LockOption interface{ apply(*LockConfig) }

// LockOptionFunc is a LockOption.
type LockOptionFunc func(*LockConfig)

func (f LockOptionFunc) apply(c *LockConfig) { f(c) }

// plain is the LockConfig without options.
var plain LockConfig

// NewLockConfig applies opts. The result may be shared and must not be changed.
func NewLockConfig[O LockOption](opts []O) *LockConfig {
	if len(opts) == 0 {
		return &plain
	}
	c := new(LockConfig)
	for _, o := range opts {
		o.apply(c)
	}
	return c
}

// MaxLease is the longest lease that is accepted.
const MaxLease = 10 * 365 * 24 * time.Hour

// CheckLease returns an error that says what is wrong with a lease that this
// process has to trust, or nil. what names the lease.
func CheckLease(what string, d time.Duration) error {
	if d > 0 && d < watchdog.MinLease {
		return fmt.Errorf("%s of %v: the least is %v, less is over within the margin for clocks", what, d, watchdog.MinLease)
	}
	return CheckTime(what, d)
}

// CheckTime is CheckLease for any time that Redis keeps.
func CheckTime(what string, d time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("%s of %v: must be positive", what, d)
	case d < time.Millisecond:
		return fmt.Errorf("%s of %v: Redis counts in milliseconds, the least is 1ms", what, d)
	case d > MaxLease:
		return fmt.Errorf("%s of %v: the most is %v", what, d, MaxLease)
	}
	return nil
}

// Within shortens a lease to what is left of c's MaxHold, in whole
// milliseconds. It returns an error if nothing is left.
func (c *LockConfig) Within(lease, left time.Duration) (time.Duration, error) {
	if lease = min(lease, left).Truncate(time.Millisecond); lease < watchdog.MinLease {
		return 0, fmt.Errorf("MaxHold of %v leaves nothing to extend", c.MaxHold)
	}
	return lease, nil
}

// MaxCount is the largest count. Above it the numbers of Lua have gaps.
const MaxCount = 1 << 53

// CheckCount returns an error that says what is wrong with a number of permits,
// or nil.
func CheckCount(n, least int64) error {
	switch {
	case n < least:
		return fmt.Errorf("%d permits: the least is %d", n, least)
	case n > MaxCount:
		return fmt.Errorf("%d permits: the most is %d", n, int64(MaxCount))
	}
	return nil
}

// maxLabel is the longest label in bytes.
const maxLabel = 1024

// check returns an error that says what is wrong with c, or nil.
func (c *LockConfig) check() error {
	switch {
	case c.Err != nil:
		return c.Err
	case c.AtLeast > 0 && c.Lease > 0 && c.AtLeast > c.Lease:
		return fmt.Errorf("HoldAtLeast of %v is longer than the lease of %v", c.AtLeast, c.Lease)
	case c.AtLeast > 0 && c.MaxHold > 0 && c.AtLeast > c.MaxHold:
		return fmt.Errorf("HoldAtLeast of %v is longer than MaxHold of %v", c.AtLeast, c.MaxHold)
	case c.Lease > 0 && c.MaxHold > 0:
		return errors.New("a fixed Lease and MaxHold exclude each other: MaxHold bounds what the watchdog renews")
	case c.Permanent && (c.Lease > 0 || c.MaxHold > 0):
		return errors.New("a Permanent lease has no end: Lease and MaxHold make no sense with it")
	case c.Permanent && c.Label != "":
		return errors.New("a Permanent lease has no end, and a label needs one: it would stay for ever")
	case len(c.Label) > maxLabel:
		return fmt.Errorf("the label has %d bytes, the most is %d", len(c.Label), maxLabel)
	}
	return nil
}
