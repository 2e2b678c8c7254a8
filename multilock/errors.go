package multilock

import "strings"

// several is an error that is several errors, in one line.
type several []error

// Error returns what all of them say.
func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all of them.
func (s several) Unwrap() []error { return s }

// join returns those of errs that are not nil as one error; nil if there are none.
func join(errs ...error) error {
	var s several
	for _, err := range errs {
		if err != nil {
			s = append(s, err)
		}
	}
	switch len(s) {
	case 0:
		return nil
	case 1:
		return s[0]
	}
	return s
}
