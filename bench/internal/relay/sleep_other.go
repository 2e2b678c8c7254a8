//go:build !linux

package relay

import "time"

func exact() {}

func sleep(d time.Duration) { time.Sleep(d) }
