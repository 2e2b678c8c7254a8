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

// A Spec is what the acquire path must know of one lock. A primitive makes it
// once, in its constructor, and it never changes.
type Spec struct {
	Kind string // of primitive, for errors and observers: "rlock"
	Name string // as the user gave it
	Key  string // the main key
	// Scope is what a Hold's Context speaks for: locks of one scope share the
	// holder.
	Scope string
	// Line is the line in which waiters of this process stand. Locks that wait
	// for the same thing in the same way share it.
	Line string
	// Channel is the Redis channel of wake-ups, empty when nobody publishes.
	Channel string
	// Suffix is what follows the holder in the field of the hash.
	Suffix string
	// Shared is set when several holders may have the lock at once, so that a
	// grant to one waiter says nothing against the next.
	Shared bool
	// Half is set for a lock that is one half of a pair on one key; then Other is
	// the Suffix of the other half. A holder that has the other half stands in
	// no line: who waits there may be waiting for it.
	Half  bool
	Other string
	// NoUpgrade refuses a first acquire by a holder that has the other half.
	NoUpgrade bool
	// Poll is how to wait where there are no wake-ups.
	Poll wait.Backoff
	// HandsOn is set for a lock that may go from one waiter of this client to the
	// next when it is given back; Fenced, for one that takes a token each time.
	HandsOn bool
	Fenced  bool
	// NonReentrant refuses an acquire by the present holder.
	NonReentrant bool
	// Queue is set for a lock whose waiters stand in a queue in Redis. Then Line
	// names that queue, and Channel is empty: each waiter has one of its own.
	Queue Queue
	// List is the key of the list in Redis of those who are given the lock as it is
	// given back, empty when it is not given away; see give.go.
	List string
	// Keys are all keys that one of the scripts may name together.
	Keys []string
	// Together is set for what all who wait are given at once.
	Together bool
	// Scripts know the order of KEYS and ARGV. It is nil for what is no lock.
	Scripts Scripts
	// Renewer renews what is no lock; a lock's Scripts do.
	Renewer Renewer

	engine *Engine
	group  string            // what may be renewed together
	listen func() wait.Hints // to the wake-ups; nil when nobody publishes
	err    error             // why the lock cannot be used on this server
}

// Scripts run the scripts of one kind of lock. Each may be run twice with the
// same arguments without doing more than once.
type Scripts interface {
	Acquire(ctx context.Context, e *Engine, opts run.Options, r *Request) (Grant, error)
	// Release answers Granted, Unchanged, NotHolder or PastDeadline.
	Release(ctx context.Context, e *Engine, opts run.Options, r *Return) (Status, error)
	Renewer
}

// A Renewer keeps leases alive.
type Renewer interface {
	// Renew extends the leases of locks of this kind, all in one hash slot in
	// a cluster. A nil slice with a nil error: too late.
	Renew(ctx context.Context, e *Engine, opts run.Options, batch []Renewal, d run.Deadline) ([]watchdog.Result, error)
	// RenewKind names the script that Renew runs; locks of one kind may be
	// renewed together.
	RenewKind() string
}

// A Request asks for a hold count.
type Request struct {
	Holder   string // the field of the hash
	Count    int    // to reach
	Lease    time.Duration
	Label    string
	Waits    bool          // the caller goes on waiting if it is refused
	Wait     time.Duration // above 0: it stands in the queue then, see Queue
	Ends     int64         // server ms: when a lease ends that the holder was given, 0 if it was not
	Entry    string        // for the list of those who are given the lock; see Spec.List
	Unlist   []string      // entries to be taken out of that list
	Tokens   int64         // fencing tokens to take, for an heir that is to hand on in memory
	Deadline run.Deadline
}

// LeaseLeft returns what a script says is left of a lease: 0, which is unknown, for one that
// does not end. The last millisecond, of which Redis says 0, is not unknown.
func LeaseLeft(ms int64) time.Duration {
	if ms < 0 {
		return 0
	}
	return max(time.Duration(ms), 1) * time.Millisecond
}

// A Grant is the answer to a Request.
type Grant struct {
	Status Status
	Left   time.Duration // of the present lease; 0 when unknown
	Token  int64
	Server int64  // on a refusal: server ms
	Ticket int64  // see wait.Answer
	Next   string // see wait.Answer

	more  int64     // tokens behind Token that are there to be handed on
	slice time.Time // until when it may be handed on; zero: as if granted just now
	room  *room     // for the Hold; nil: that of the holding
}

// A Status is what a script said.
type Status int

// What scripts say.
const (
	Refused      Status = iota // somebody else has it
	Granted                    // done as asked
	Unchanged                  // it was so before
	NotHolder                  // the holder does not have what the request builds on
	PastDeadline               // the deadline had passed; nothing was changed
)

// A Return asks for a lower hold count.
type Return struct {
	Holder   string
	Count    int // to reach
	Label    string
	Linger   time.Duration // at 0: stay closed for that long, in the name of
	LingerAs string        // this holder
	Deadline run.Deadline
	Heir     *Request // to have the lock; with a queue or an Entry, if it is the next one
	Leaves   bool     // only what is of the holder is taken out of the list
	Unlist   []string // entries to be taken out of it; see Spec.List
	Next     string   // set by Release: the waiter of this client whose turn it is now
	Listed   int64    // set by Release: server ms, when the heir's Entry is in the list; else 0
	Token    int64    // set by Release: the heir's fencing token
	More     int64    // set by Release: how many tokens behind that one were taken for it
	Heard    int      // set by Release: how many clients were told, ours too; 0: unknown
	Away     bool     // set by Release: one in the list was given it
	short    error    // too few replicas have it
	Listens  bool     // this client listens on the Redis channel of the lock
	Alone    bool     // name no key but that of the lock
	Given    bool     // set by Release: the heir has it
	acked    bool     // replicas are to have it
}

// A Renewal is one lock of a batch.
type Renewal struct {
	Key    string
	Holder string
	Count  int // hold count
	Label  string
	Lease  time.Duration
}

// Prepare fills in what follows from the rest of s. Constructors call it once.
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

// LockConfig is what the options of one acquire come to.
type LockConfig struct {
	Lease   time.Duration // 0: renewed by the watchdog
	Waits   bool          // Wait is set
	Wait    time.Duration
	MaxHold time.Duration
	AtLeast time.Duration
	Label   string
	// Permanent asks for a lease without end, which only permits have.
	Permanent bool

	Err error // the first option that made no sense
}

// A LockOption changes a LockConfig. It is sealed: only this module makes them.
type LockOption interface{ apply(*LockConfig) }

// LockOptionFunc is a LockOption.
type LockOptionFunc func(*LockConfig)

func (f LockOptionFunc) apply(c *LockConfig) { f(c) }

// plain is what no options come to.
var plain LockConfig

// NewLockConfig applies opts. What it returns is shared, and never changes.
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

// CheckLease returns an error that says what is wrong with a lease of something that
// this process is to believe in, or nil. what names it.
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

// Within cuts a lease to what is left of c's MaxHold, in whole milliseconds; an error
// says that this is nothing.
func (c *LockConfig) Within(lease, left time.Duration) (time.Duration, error) {
	if lease = min(lease, left).Truncate(time.Millisecond); lease < watchdog.MinLease {
		return 0, fmt.Errorf("MaxHold of %v leaves nothing to extend", c.MaxHold)
	}
	return lease, nil
}

// MaxCount is the most that is counted, and that scripts can count: above it Lua's
// numbers have gaps.
const MaxCount = 1 << 53

// CheckCount returns an error that says what is wrong with a number of permits, or
// nil.
func CheckCount(n, least int64) error {
	switch {
	case n < least:
		return fmt.Errorf("%d permits: the least is %d", n, least)
	case n > MaxCount:
		return fmt.Errorf("%d permits: the most is %d", n, int64(MaxCount))
	}
	return nil
}

// maxLabel is the longest label that is accepted, in bytes.
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
