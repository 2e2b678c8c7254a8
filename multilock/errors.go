package multilock

import "strings"

// several is several errors as one error, on one line.
type several []error

// Error returns the texts of all errors.
func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (s several) Unwrap() []error { return s }

// join returns the errors that are not nil as one error, or nil if there are
// none.
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
