package object

import "time"

// MaxTime is the longest time that Redis is asked to keep.
const MaxTime = 10 * 365 * 24 * time.Hour

// MaxPermits is how many permits a semaphore may have.
const MaxPermits = 1_000_000_000
