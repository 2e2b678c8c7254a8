//go:build !unix

package clock

import (
	"errors"
	"time"
)

func (f File) set(int, time.Duration) error { return errors.New("clocks cannot be moved here") }
