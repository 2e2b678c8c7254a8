//go:build !unix

package history

import "time"

// Now returns the time in nanoseconds; here it is that of the wall clock.
func Now() int64 { return time.Now().UnixNano() }
