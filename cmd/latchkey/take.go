package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/fairlock"
	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/permitsemaphore"
	"github.com/latchkey-go/latchkey/rlock"
	"github.com/latchkey-go/latchkey/rwlock"
)

// A grip is what run holds while CMD runs: a lock or a permit.
type grip interface {
	Lost() <-chan struct{}
	Remaining() time.Duration
	holder() string // as Redis shows it
	token() int64   // 0 without one
	// release gives it back. lingers is set if the client must not be closed,
	// because Close would give back what --hold-at-least keeps.
	release(ctx context.Context) (lingers bool, err error)
}

// maxLabel is the longest label in bytes.
const maxLabel = 1024

// lockFlags say which lock a command takes, and in whose name.
type lockFlags struct {
	flags             *pflag.FlagSet
	waits             waitFlags
	shared, exclusive bool
	fair              bool
	permits           int
	conflict          int // exit code of a refusal; with 0 nothing is said
	lease, holdMin    time.Duration
	label             string
}

// register adds the flags that all commands have. label is what the label is by
// default.
func (f *lockFlags) register(fs *pflag.FlagSet, label string) {
	f.flags = fs
	f.waits.register(fs, "n")
	fs.BoolVarP(&f.shared, "shared", "s", false, "take the read lock of the read-write lock NAME: shared with others of -s")
	fs.BoolVarP(&f.exclusive, "exclusive", "x", false, "take its write lock: alone, also with regard to -s")
	fs.BoolVar(&f.fair, "fair", false, "take the fair lock NAME: first come, first served, over all machines")
	fs.IntVar(&f.permits, "permits", 0, "let `N` have it at a time: take one of the N permits of the semaphore NAME, which\nare made if there are none")
	fs.StringVar(&f.label, "label", "", "who this is, for people who look at the lock (default "+label+")")
}

func (f *lockFlags) check(cmd string) error {
	if err := f.waits.check(); err != nil {
		return err
	}
	permits := f.flags.Changed("permits")
	switch {
	case f.lease < 100*time.Millisecond || f.lease > object.MaxTime:
		return exit.Usagef("%s: a --lease of %v: the least is 100ms, the most %v", cmd, f.lease, object.MaxTime)
	case count(f.shared, f.exclusive, f.fair, permits) > 1:
		return exit.Usagef("%s: -s, -x, --fair and --permits exclude each other", cmd)
	case permits && (f.permits < 1 || f.permits > object.MaxPermits):
		return exit.Usagef("%s: --permits must be between 1 and %d, not %d", cmd, object.MaxPermits, f.permits)
	case len(f.label) > maxLabel:
		return exit.Usagef("%s: the label has %d bytes, the most is %d", cmd, len(f.label), maxLabel)
	}
	return nil
}

// count returns how many of its arguments are true.
func count(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

// labelFor sets the default label, unless a label is given.
func (f *lockFlags) labelFor(cmd string) {
	if !f.flags.Changed("label") {
		f.label = defaultLabel(cmd)
	}
}

// defaultLabel says who runs which command where; cmd may be empty. It omits the
// arguments, because they may be secret and many can read Redis.
func defaultLabel(cmd string) string {
	who := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	label := strings.TrimSuffix(who+"@"+host+" "+cmd, " ")
	if len(label) <= maxLabel {
		return label
	}
	cut := maxLabel
	for !utf8.RuneStart(label[cut]) {
		cut--
	}
	return label[:cut]
}

// A want is a lock or a permit that a command takes.
type want struct {
	lockFlags
	name  string
	fixed bool // the lease is not renewed
	once  bool // it is the job NAME, for one fire
}

// take acquires what the flags name, or returns why it cannot.
func (w *want) take(ctx context.Context, client *latchkey.Client, addr string) (grip, error) {
	err := w.selfMade(ctx, client, w.name)
	var g grip
	if err == nil {
		g, err = w.get(ctx, client)
	}
	if err != nil {
		return nil, w.refused(client, addr, err)
	}
	return g, nil
}

// refused returns the error of an acquire that failed, even if the exit code is
// 0.
func (w *want) refused(client *latchkey.Client, addr string, err error) error {
	var e *exit.Error
	if errors.As(err, &e) {
		return err
	}
	if taken := refusal(err); taken != nil {
		if w.conflict == 0 {
			return &exit.Error{Code: 0}
		}
		return exit.Errorf(w.conflict, "somebody else has %s%s", w.what(), whoHas(taken))
	}
	if errors.Is(err, latchkey.ErrKeyConflict) {
		err = fmt.Errorf("%s cannot be had: the key is %s", w.what(), object.WhatIs(context.Background(), client, w.name))
	}
	return connect.Unavailable(addr, err)
}

// whoHas tells who has what was refused, as ": held by …"; nothing if that is unknown.
func whoHas(taken *latchkey.TakenError) string {
	return text.Harmless(strings.TrimPrefix(taken.Error(), latchkey.ErrNotAcquired.Error()))
}

// what describes the object that the flags name.
func (w *want) what() string {
	switch {
	case w.permits > 0:
		return fmt.Sprintf("the permits of %q", w.name)
	case w.shared, w.exclusive:
		return fmt.Sprintf("the read-write lock %q", w.name)
	case w.once:
		return fmt.Sprintf("the job %q", w.name)
	}
	return fmt.Sprintf("the lock %q", w.name)
}

// get acquires what the flags name, and waits as they say.
func (w *want) get(ctx context.Context, client *latchkey.Client) (grip, error) {
	var opts []latchkey.LockOption
	if w.fixed {
		opts = append(opts, latchkey.Lease(w.lease))
	}
	if w.label != "" {
		opts = append(opts, latchkey.Label(w.label))
	}
	if w.permits > 0 {
		return w.takePermit(ctx, client, opts)
	}
	if w.holdMin >= time.Millisecond {
		opts = append(opts, latchkey.HoldAtLeast(w.holdMin))
	}
	lock := w.lock(client)
	h, err := attempt(ctx, &w.waits, lock.Lock, lock.TryLock, opts)
	if err != nil {
		return nil, err
	}
	return heldLock{h, w.exclusive}, nil
}

// lock returns the lock that the flags name.
func (w *want) lock(client *latchkey.Client) latchkey.Locker {
	switch {
	case w.shared:
		return rwlock.New(client, w.name).ReadLock()
	case w.exclusive:
		return rwlock.New(client, w.name).WriteLock()
	case w.fair:
		return fairlock.New(client, w.name)
	}
	return rlock.New(client, w.name, rlock.Fenced())
}

// takePermit takes one of the permits, and first creates the semaphore if there
// is none.
func (w *want) takePermit(ctx context.Context, client *latchkey.Client, opts []latchkey.LockOption) (grip, error) {
	sem := permitsemaphore.New(client, w.name)
	set, err := sem.TrySetPermits(ctx, w.permits)
	if err == nil && !set {
		err = w.comparePermits(ctx, sem)
	}
	if err != nil {
		return nil, err
	}
	p, err := attempt(ctx, &w.waits, sem.Acquire, sem.TryAcquire, opts)
	if err != nil {
		return nil, err
	}
	return &heldPermit{Permit: p, want: w, client: client, sem: sem, since: time.Now()}, nil
}

// comparePermits warns if the number of permits is not that of --permits. The
// number is the same for all users, so run does not change it.
func (w *want) comparePermits(ctx context.Context, sem *permitsemaphore.Semaphore) error {
	n, err := sem.Permits(ctx)
	if err == nil && n != w.permits {
		warn("%q has %d permits, not %d: 'latchkey sem set' changes that", w.name, n, w.permits)
	}
	return err
}

// A heldLock is the grip of a lock.
type heldLock struct {
	*latchkey.Hold
	writes bool // it is the write half of a read-write lock, whose holder ends with ":write" in Redis
}

func (h heldLock) token() int64 { return h.Token() }

func (h heldLock) holder() string {
	if h.writes {
		return h.HolderID() + ":write"
	}
	return h.HolderID()
}

func (h heldLock) release(ctx context.Context) (bool, error) { return false, h.Unlock(ctx) }

// A heldPermit is the grip of a permit.
type heldPermit struct {
	*permitsemaphore.Permit
	want   *want
	client *latchkey.Client
	sem    *permitsemaphore.Semaphore
	since  time.Time
}

func (p *heldPermit) holder() string { return p.ID() }
func (p *heldPermit) token() int64   { return 0 }

func (p *heldPermit) release(ctx context.Context) (lingers bool, err error) {
	left := time.Until(p.since.Add(p.want.holdMin))
	if left < time.Millisecond || p.Remaining() <= 0 {
		return false, p.Release(ctx)
	}
	kept, err := p.sem.UpdateLease(ctx, p.ID(), left)
	switch {
	case err == nil && kept:
		engine.Of(p.client).LabelKept(ctx, engine.Mapped(p.client, p.sem.Name()), p.ID(), p.want.label, p.since, left)
	case err == nil:
		err = errors.Join(latchkey.ErrLeaseLost, latchkey.ErrNotHeld)
	}
	return kept, err
}
