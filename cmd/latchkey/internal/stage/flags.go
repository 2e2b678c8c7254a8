package stage

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
)

// Flags set the number of workers and clients, and the duration.
type Flags struct {
	Duration         time.Duration
	Workers, Clients int
}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet, duration time.Duration, workers, clients int) {
	terminal.DurationVar(fs, &f.Duration, "duration", "", duration, "how long each load lasts")
	fs.IntVar(&f.Workers, "workers", workers, "how many goroutines compete")
	fs.IntVar(&f.Clients, "clients", clients, "how many clients they belong to")
}

// Check checks the flags of a command. least is how many workers it needs.
func (f *Flags) Check(command string, least int) error {
	switch {
	case f.Workers < least || f.Workers > 100_000:
		return exit.Usagef("%s: --workers must be between %d and 100000, not %d", command, least, f.Workers)
	case f.Clients < 1 || f.Clients > f.Workers:
		return exit.Usagef("%s: --clients must be between 1 and the number of workers, not %d", command, f.Clients)
	case f.Duration <= 0:
		return exit.Usagef("%s: --duration must be positive", command)
	}
	return nil
}
