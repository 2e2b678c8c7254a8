//go:build !linux || !amd64

package clock

import (
	"errors"
	"os"
)

// Movable says whether the clocks of a Go process can be moved here.
const Movable = false

// Child fails where the clocks of this process were to be moved.
func Child() error {
	if os.Getenv(env) == "" {
		return nil
	}
	return errors.New("the clocks of a Go process can be moved on linux/amd64 only")
}
