package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
)

// waitingAfter is how long run waits in silence on a terminal.
const waitingAfter = time.Second

// A waitingLine tells a person at a terminal what run waits for, on one line that is
// written over every second.
type waitingLine struct {
	what string

	mu    sync.Mutex
	wait  latchkey.SlowWait // as last told
	told  time.Time
	timer *time.Timer // nil while nothing is shown
	over  bool
}

// options returns the options of a client whose waits are shown; none if nobody would
// see them.
func (l *waitingLine) options() []latchkey.Option {
	if !terminal.IsTerminal(os.Stderr) {
		return nil
	}
	return []latchkey.Option{latchkey.WithSlowWait(waitingAfter), latchkey.WithObserver(latchkey.Observer{SlowWait: l.show})}
}

// show shows a wait.
func (l *waitingLine) show(w latchkey.SlowWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.wait, l.told = w, time.Now()
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Second, l.again)
	}
	l.draw()
}

// again shows the same wait a second later.
func (l *waitingLine) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.draw()
		l.timer.Reset(time.Second)
	}
}

// draw writes the line, with the times of now.
func (l *waitingLine) draw() {
	w := l.wait
	taken := latchkey.TakenError{Kind: w.Kind, Name: w.Name, Count: w.Count, At: w.At}
	passed := time.Since(l.told)
	if !w.At.IsZero() {
		taken.At = w.At.Add(passed)
	}
	for _, h := range w.Holders {
		if !h.Ended.IsZero() { // it is not renewed
			h.Lease = max(h.Lease-passed, time.Millisecond)
		}
		taken.Holders = append(taken.Holders, h)
	}
	line := fmt.Sprintf("waiting for %s%s", l.what, whoHas(&taken))
	if w.Place > 1 {
		line += fmt.Sprintf(", %d before you", w.Place-1)
	}
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s", terminal.Fit(os.Stderr, "latchkey: "+line))
}

// clear ends the showing.
func (l *waitingLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
