package engine

import "errors"

// During calls work and then giveBack, which runs however work ends, even by a
// panic or Goexit. It returns work's error unchanged, joined with that of
// giveBack if there is one.
func During(work, giveBack func() error) (err error) {
	returned := false
	defer func() {
		gerr := giveBack()
		if !returned {
			return // a panic or Goexit is under way
		}
		if gerr != nil {
			err = errors.Join(err, gerr)
		}
	}()
	err = work()
	returned = true
	return err
}
