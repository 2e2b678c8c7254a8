package object

import "time"

// MaxTime is the longest time that Redis is asked to keep something.
const MaxTime = 10 * 365 * 24 * time.Hour

// MaxPermits is the most permits of a semaphore.
const MaxPermits = 1_000_000_000
