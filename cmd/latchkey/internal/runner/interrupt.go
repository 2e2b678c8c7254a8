package runner

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// Interruptible returns a context that signals end which end processes; its
// cause is then what the process ends with.
func Interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := CatchSignals()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				if EndsWait(sig) {
					cancel(EndedBy(sig))
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		close(done)
	}
}

// EndedBy is how a process ends that a signal ends.
func EndedBy(sig os.Signal) error {
	n, _ := sig.(syscall.Signal)
	return &exit.Error{Code: exit.Signal + int(n)}
}
