package object

// glob reports whether text matches a Redis pattern: * matches anything, ? one
// byte, [abc], [a-c] and [^abc] one byte of a class, and \ makes the next byte
// literal.
func glob(pattern, text string) bool {
	i, j := 0, 0
	star, mark := -1, 0 // index after the last *, and how far it has matched
	for j < len(text) {
		if i < len(pattern) && pattern[i] == '*' {
			i++
			star, mark = i, j
			continue
		}
		if i < len(pattern) {
			if ok, n := one(pattern[i:], text[j]); ok {
				i, j = i+n, j+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		i, j = star, mark
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}

// one matches b with the first element of pattern and returns the length of
// that element.
func one(pattern string, b byte) (ok bool, n int) {
	switch {
	case pattern[0] == '?':
		return true, 1
	case pattern[0] == '[':
		ok, n = class(pattern[1:], b)
		return ok, n + 1
	case pattern[0] == '\\' && len(pattern) > 1:
		return pattern[1] == b, 2
	}
	return pattern[0] == b, 1
}

// class matches b with the class in brackets and returns the length of the
// class with its closing bracket.
func class(pattern string, b byte) (ok bool, n int) {
	not := pattern != "" && pattern[0] == '^'
	if not {
		n++
	}
	for n < len(pattern) && pattern[n] != ']' {
		p := pattern[n:]
		switch {
		case p[0] == '\\' && len(p) > 1:
			ok, n = ok || p[1] == b, n+2
		case len(p) > 2 && p[1] == '-':
			ok, n = ok || min(p[0], p[2]) <= b && b <= max(p[0], p[2]), n+3
		default:
			ok, n = ok || p[0] == b, n+1
		}
	}
	return ok != not, min(n+1, len(pattern))
}
