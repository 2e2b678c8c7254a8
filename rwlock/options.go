package rwlock

import (
	"fmt"
	"time"
)

// An Option changes how callers wait for the lock. What is in Redis, and who
// may hold the lock together with whom, is the same with all options.
type Option interface{ apply(*config) }

type config struct{ preference time.Duration }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// defaultPreference is longer than most read holds.
const defaultPreference = 2 * time.Second

// maxPreference is much longer than any reader should be kept out.
const maxPreference = time.Hour

// WriterPreference sets for how long fresh readers stand back for a writer of
// this lock that waits because of readers; see the package comment. The writer
// gets its turn within 3 × d if read holds are shorter than d. After a writer's
// context is cancelled, readers stand back for what is left of d. Zero means
// never, as with Redisson. d is truncated to milliseconds. Default: 2 s.
func WriterPreference(d time.Duration) Option {
	if d < 0 || d > maxPreference {
		panic(fmt.Sprintf("rwlock: WriterPreference of %v: from 0 to %v", d, maxPreference))
	}
	return optionFunc(func(c *config) { c.preference = d })
}
