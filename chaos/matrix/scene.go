package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
)

// A sight is what the callers of one cell saw, in letters, and what was wrong.
type sight struct {
	hold  byte // k kept, l lost and told
	fresh byte // of what was taken during the fault: k granted, r refused or over, a in doubt, f failed
	give  byte // of what was given back: k, l it was lost, a in doubt, f failed
	next  byte // of the waiter: k after the release, e at the end of the lease, d beside the holder, m told of full memory, f failed

	took time.Duration // how long the waiter went without what was free

	// mu guards the fields below.
	mu    sync.Mutex
	notes []string
	wrong []string
}

func (s *sight) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *sight) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// A want says which letters are right in each place; empty for any.
type want struct{ hold, fresh, give, next string }

// judge compares what was seen with what is right.
func (s *sight) judge(w want) {
	for _, place := range []struct {
		what  string
		saw   byte
		right string
	}{{"the hold", s.hold, w.hold}, {"the new one", s.fresh, w.fresh}, {"the release", s.give, w.give}, {"the waiter", s.next, w.next}} {
		if place.right != "" && place.saw != 0 && !strings.ContainsRune(place.right, rune(place.saw)) {
			s.fault("%s: %s, not %s", place.what, words[place.saw], place.right)
		}
	}
}

var words = map[byte]string{
	'k': "kept", 'l': "lost, and told", 'r': "refused", 'a': "in doubt", 'f': "failed", 'e': "after the lease", 'd': "beside the holder", 'v': "void", 'm': "told that Redis's memory is full",
}

// text tells what was seen in one line.
func (s *sight) text() string {
	var parts []string
	add := func(what string, letter byte) {
		if letter != 0 {
			parts = append(parts, what+" "+words[letter])
		}
	}
	add("hold", s.hold)
	if s.fresh == 'k' {
		parts = append(parts, "new granted")
	} else {
		add("new", s.fresh)
	}
	if s.give == 'k' {
		parts = append(parts, "released")
	} else {
		add("release", s.give)
	}
	switch s.next {
	case 'k':
		parts = append(parts, fmt.Sprintf("waiter in after %v", s.took.Round(time.Millisecond)))
	case 0:
	default:
		add("waiter", s.next)
	}
	return strings.Join(append(parts, s.notes...), ", ")
}

// grabbed sorts the error of one who wanted to have something.
func grabbed(err error) byte {
	if errors.Is(err, latchkey.ErrLeaseLost) {
		return 'v'
	}
	return letter(err)
}

// letter sorts the error of a call.
func letter(err error) byte {
	var e *latchkey.Error
	switch {
	case err == nil:
		return 'k'
	case errors.As(err, &e) && e.MaybeApplied():
		return 'a'
	case errors.Is(err, latchkey.ErrLeaseLost), errors.Is(err, latchkey.ErrNotHeld):
		return 'l'
	case errors.Is(err, latchkey.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return 'r'
	}
	return 'f'
}

// A cell is one column of a row while it is played.
type cell struct {
	rig    *rig
	row    *row
	column byte
	sight

	mine, his       thing // of the object that is held and waited for, by a and b
	held, spare     *grip
	fresh, freshHis thing
	spareHis        thing
	waiter          chan taken
	cancel          context.CancelFunc
	busy            sync.WaitGroup
	freshGrip       *grip
}

type taken struct {
	grip *grip
	err  error
	at   time.Time
}

// set up before the fault: a holds an object for which b waits, and a spare one.
func (c *cell) setUp(ctx context.Context) error {
	r := c.rig
	c.mine, c.his = newThing(c.column, r.name(c.column, "held"), r.a), newThing(c.column, r.name(c.column, "held"), r.b)
	spare := newThing(c.column, r.name(c.column, "spare"), r.a)
	c.spareHis = newThing(c.column, r.name(c.column, "spare"), r.b)
	c.fresh, c.freshHis = newThing(c.column, r.name(c.column, "fresh"), r.a), newThing(c.column, r.name(c.column, "fresh"), r.b)
	for _, t := range []thing{c.mine, spare, c.fresh} {
		if err := t.prepare(ctx); err != nil {
			return fmt.Errorf("to prepare: %w", err)
		}
	}
	var err error
	if c.held, err = c.mine.take(ctx); err != nil {
		return fmt.Errorf("to hold: %w", err)
	}
	if c.spare, err = spare.take(ctx); err != nil {
		return fmt.Errorf("to hold another: %w", err)
	}
	c.waiter = make(chan taken, 1)
	var waiting context.Context
	waiting, c.cancel = context.WithTimeout(r.ctx, 60*time.Second)
	go func() {
		g, err := c.his.follow(waiting)
		c.waiter <- taken{g, err, time.Now()}
	}()
	return nil
}

// strike has a do, during the fault, what the fault may disturb: take what is free
// and give back what it has.
func (c *cell) strike() {
	c.busy.Go(func() {
		ctx, cancel := context.WithTimeout(c.rig.ctx, c.row.patience())
		defer cancel()
		begin := time.Now()
		g, err := c.fresh.take(ctx)
		c.sight.fresh, c.freshGrip = grabbed(err), g
		if over := time.Since(begin) - c.row.patience() - 100*time.Millisecond; over > slow {
			c.fault("the call returned %v after its context", over)
		}
		if err != nil {
			c.note("%s", clue(err))
		}
	})
	c.busy.Go(func() {
		err := c.spare.give(c.rig.ctx)
		c.sight.give = letter(err)
		if err != nil {
			c.note("release: %s", clue(err))
		}
	})
}

// slow is what this machine may be late by when much is going on.
const slow = 400 * time.Millisecond

// clue is the end of an error's text, which says what the server said.
func clue(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return strings.TrimSpace(text[:min(len(text), 60)])
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return ch != nil
	default:
		return false
	}
}

// settle looks, after the fault, at what has become of everything, and sees to it
// that the object that is held goes on to the waiter and all are free again.
func (c *cell) settle() {
	c.busy.Wait()
	defer c.cancel()
	c.handOver()
	ctx, cancel := context.WithTimeout(c.rig.ctx, 15*time.Second)
	defer cancel()
	if c.sight.give == 'f' && (c.column == 'S' || c.column == 'C') {
		// They belong to nobody, so nobody but the caller can give them back.
		if err := c.spare.give(c.rig.ctx); err != nil {
			c.fault("giving back again what could not be: %v", err)
		}
	}
	if c.freshGrip != nil {
		if err := c.freshGrip.give(ctx); err != nil && !(letter(err) == 'l' && (c.row.long || c.row.lossy)) {
			c.fault("giving back what was taken during the fault: %v", err)
		}
	}
	c.free(ctx, "fresh", c.freshHis, c.sight.fresh)
	c.free(ctx, "spare", c.spareHis, c.sight.give)
	c.cycle(ctx)
	for _, t := range []thing{c.mine, c.spareHis, c.freshHis} {
		if err := t.clean(ctx); err != nil {
			c.fault("cleaning up: %v", err)
		}
	}
}

// handOver gives back what was held, if it is held yet, and waits for the waiter.
func (c *cell) handOver() {
	lossy := c.row.lossy
	if c.held.lost != nil && (c.row.long || lossy) {
		// A holder that has lost it is told by the end of the lease at the latest; one that
		// has not may learn it with its release.
		select {
		case <-c.held.lost:
		case <-time.After(c.row.tells()):
		}
	}
	var early taken
	select {
	case early = <-c.waiter:
	default:
	}
	c.hold = 'k'
	if isClosed(c.held.lost) {
		c.hold = 'l'
	}
	if early.grip != nil && early.err == nil && c.hold == 'k' {
		c.next = 'd'
	}
	err := c.held.give(c.rig.ctx)
	gave := time.Now()
	switch {
	case err == nil:
	case letter(err) == 'l':
		c.hold = 'l'
	case c.column == 'C' && lossy || c.column == 'S' && lossy:
	default:
		c.fault("giving back what was held: %v", err)
	}
	got := early
	if got.at.IsZero() {
		patience := 10 * time.Second
		if c.row.wantOf(c.column).next == "r" {
			patience = recheck + time.Second + slow
		}
		select {
		case got = <-c.waiter:
		case <-time.After(patience):
			if strings.Contains(c.row.wantOf(c.column).next, "r") {
				c.next = 'r'
				c.cancel()
				<-c.waiter
				return
			}
			c.next = 'f'
			c.fault("the waiter has not come in after 10s")
			c.cancel()
			<-c.waiter
			return
		}
	}
	if got.err != nil {
		if c.next = grabbed(got.err); redis.IsOOMError(got.err) {
			c.next = 'm'
		} else if c.next != 'v' {
			c.next = 'f'
		}
		c.note("waiter: %s", clue(got.err))
		return
	}
	if c.next == 0 {
		c.next = 'k'
		if c.hold == 'l' {
			c.next = 'e'
		}
	}
	if c.took = max(got.at.Sub(gave), 0); c.took > recheck+time.Second+slow+c.row.late {
		c.fault("the waiter came in %v after the release", c.took)
	}
	if c.column == 'X' && c.held.token != 0 && got.grip.token <= c.held.token {
		c.fault("the token went from %d to %d", c.held.token, got.grip.token)
	}
	if err := got.grip.give(c.rig.ctx); err != nil && !(lossy && letter(err) == 'l') {
		c.fault("the waiter gives it back: %v", err)
	}
}

// free has b take an object that nobody should have any more: at once, or where
// there is doubt, when the lease is over.
func (c *cell) free(ctx context.Context, what string, his thing, how byte) {
	switch c.column {
	case 'C':
		if how != 'k' { // the count may run, or not
			return
		}
	case 'S', 'P':
		if c.column == 'S' && what == "spare" && how == 'a' {
			// Permits have no owner: whether it was given back, nobody can tell.
			if err := his.clean(ctx); err != nil {
				c.fault("removing %s: %v", what, err)
			}
			if err := his.prepare(ctx); err != nil {
				c.fault("setting %s again: %v", what, err)
			}
			break
		}
		if c.row.lossy { // an operator would have to set it again
			if err := his.prepare(ctx); err != nil {
				c.fault("setting %s again: %v", what, err)
			}
			if c.column == 'S' && what == "spare" || how == 'k' && what == "fresh" {
				break
			}
		}
	}
	limit := c.rig.lease + 2*time.Second
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	g, err := his.follow(bounded)
	if err != nil {
		c.fault("%s is not free after %v: %v", what, limit, err)
		return
	}
	if d := time.Since(begin); how == 'k' && d > recheck+slow && !c.row.lossy {
		c.fault("%s was free after %v only", what, d)
	}
	if err := g.give(ctx); err != nil {
		c.fault("giving %s back: %v", what, err)
	}
}

// cycle has both sides take and give back a new object: nothing is stuck.
func (c *cell) cycle(ctx context.Context) {
	for i, s := range []side{c.rig.a, c.rig.b} {
		t := newThing(c.column, c.rig.name(c.column, fmt.Sprint("cycle", i)), s)
		if err := t.prepare(ctx); err != nil {
			c.fault("afterwards: %v", err)
			return
		}
		g, err := t.take(ctx)
		if err == nil {
			err = g.give(ctx)
		}
		if err != nil {
			c.fault("afterwards: %v", err)
		}
		if err := t.clean(ctx); err != nil {
			c.fault("cleaning up afterwards: %v", err)
		}
	}
}
