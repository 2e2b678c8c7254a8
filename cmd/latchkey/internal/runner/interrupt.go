package runner

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// Interruptible returns a context that ends when a signal that ends processes
// arrives. Its cause is the error for the exit code.
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

// EndedBy returns the error with which a process ends because of a signal.
func EndedBy(sig os.Signal) error {
	n, _ := sig.(syscall.Signal)
	return &exit.Error{Code: exit.Signal + int(n)}
}
