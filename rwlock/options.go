package rwlock

import (
	"fmt"
	"time"
)

// An Option changes how the lock is waited for. What is in Redis, and who may
// hold it with whom, is the same with all options.
type Option interface{ apply(*config) }

type config struct{ preference time.Duration }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// defaultPreference is long enough for most read holds to end in.
const defaultPreference = 2 * time.Second

// maxPreference is far more than anybody should be kept for nothing.
const maxPreference = time.Hour

// WriterPreference sets for how long fresh readers stand back for a writer of
// this lock that waits because of readers; see the package comment. A writer
// comes to its turn within three times that if read holds are shorter than it. One
// whose context is cancelled leaves them standing for what is left of it.
// Zero: never, as with Redisson. Milliseconds count. Default: 2 s.
func WriterPreference(d time.Duration) Option {
	if d < 0 || d > maxPreference {
		panic(fmt.Sprintf("rwlock: WriterPreference of %v: from 0 to %v", d, maxPreference))
	}
	return optionFunc(func(c *config) { c.preference = d })
}
