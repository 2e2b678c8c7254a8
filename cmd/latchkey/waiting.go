package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/text"
)

// waitingAfter is how long run waits in silence on a terminal.
const waitingAfter = time.Second

// A waitingLine tells a person at a terminal what run waits for, on one line that is
// written over.
type waitingLine struct {
	what string

	mu   sync.Mutex
	text string // on the terminal
	over bool
}

// options returns the options of a client whose waits are shown; none if nobody would
// see them.
func (l *waitingLine) options() []latchkey.Option {
	if !text.IsTerminal(os.Stderr) {
		return nil
	}
	return []latchkey.Option{latchkey.WithSlowWait(waitingAfter), latchkey.WithObserver(latchkey.Observer{SlowWait: l.show})}
}

// show shows a wait.
func (l *waitingLine) show(w latchkey.SlowWait) {
	taken := latchkey.TakenError{Kind: w.Kind, Name: w.Name, Holders: w.Holders, Count: w.Count, At: w.At}
	line := fmt.Sprintf("waiting for %s%s", l.what, strings.TrimPrefix(taken.Error(), latchkey.ErrNotAcquired.Error()))
	if w.Place > 1 {
		line += fmt.Sprintf(", %d before you", w.Place-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.text = text.Fit(os.Stderr, "latchkey: "+text.Harmless(line))
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s", l.text)
}

// clear ends the showing.
func (l *waitingLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.text != "" {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
