package engine

import "errors"

// During runs work and then giveBack, which is called however work ends, by a
// panic or Goexit too. It returns work's error as it is, with that of giveBack
// joined to it if there is one.
func During(work, giveBack func() error) (err error) {
	returned := false
	defer func() {
		gerr := giveBack()
		if !returned {
			return // a panic is on its way through, or Goexit
		}
		if gerr != nil {
			err = errors.Join(err, gerr)
		}
	}()
	err = work()
	returned = true
	return err
}
