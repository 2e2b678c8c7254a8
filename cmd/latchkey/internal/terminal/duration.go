package terminal

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// A duration is the flag of DurationVar.
type duration time.Duration

var _ pflag.Value = (*duration)(nil)

// DurationVar adds a flag that parses 200ms as Go does, and 0.2 as flock does.
// short may be empty.
func DurationVar(fs *pflag.FlagSet, d *time.Duration, name, short string, value time.Duration, usage string) {
	*d = value
	fs.VarP((*duration)(d), name, short, usage)
}

// Set parses text.
func (d *duration) Set(text string) error {
	v, err := parseDuration(text)
	if err == nil {
		*d = duration(v)
	}
	return err
}

// String formats the duration. It returns "" for 0, so that help shows no
// default.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type returns the name of the argument in help.
func (d *duration) Type() string { return "duration" }

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		seconds, ferr := strconv.ParseFloat(text, 64)
		ns := seconds * float64(time.Second)
		if ferr != nil || math.IsNaN(ns) || math.Abs(ns) >= math.MaxInt64 {
			return 0, errors.New("neither seconds, as 0.2, nor a duration, as 200ms or 1m30s")
		}
		d = time.Duration(ns)
	}
	if d < 0 {
		return 0, errors.New("it is negative")
	}
	return d, nil
}
