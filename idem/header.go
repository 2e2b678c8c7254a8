package idem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// header is the name of the field that has the key.
const header = "Idempotency-Key"

// maxKey is the most characters of a key.
const maxKey = 255

// errNoKey is the error of keyOf if there is no field.
var errNoKey = errors.New("the field is missing")

// keyOf returns the key in the header. The field is a string of RFC 8941, in quotes.
// Because many clients leave the quotes out, a bare word is taken for what it says:
// abc and "abc" are the same key.
func keyOf(h http.Header) (string, error) {
	switch lines := h[header]; len(lines) {
	case 0:
		return "", errNoKey
	case 1:
		return parseKey(strings.Trim(lines[0], " \t"))
	default:
		return "", fmt.Errorf("the field has %d lines", len(lines))
	}
}

// parseKey returns the key that the value of a field says.
func parseKey(value string) (string, error) {
	key, err := value, error(nil)
	if strings.HasPrefix(value, `"`) {
		key, err = unquote(value[1:])
	} else if i := strings.IndexFunc(value, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c) }); i >= 0 {
		err = fmt.Errorf("the key has %q, and no quotes", value[i:i+1])
	}
	if err != nil {
		return "", err
	}
	return key, checkKey(key)
}

// unquote returns what stands in quotes, of which the first is not in s.
func unquote(s string) (string, error) {
	var key strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			if i+1 < len(s) {
				return "", errors.New("something follows the key")
			}
			return key.String(), nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", errors.New(`only " and \ may follow a \`)
			}
			key.WriteByte(s[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("a quote is missing")
}

// checkKey returns what is wrong with a key.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrKey)
	case len(key) > maxKey:
		return fmt.Errorf("%w: it has %d characters, and the most is %d", ErrKey, len(key), maxKey)
	case strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		return fmt.Errorf("%w: it has a character that is not printable ASCII", ErrKey)
	}
	return nil
}
