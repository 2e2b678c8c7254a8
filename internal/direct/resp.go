package direct

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// An Answer is an integer, which is Int, an array of integers, which is Ints, or
// anything else: Any is a string, another array, or nil for Redis's nil, and Other is set.
type Answer struct {
	Int   int64
	Ints  []int64
	Any   any
	Other bool
}

// sentType is the type that go-redis gives to an error that Redis has sent.
var sentType = reflect.TypeOf(redis.Nil)

// sent returns an error that Redis has sent as go-redis would, so that whoever looks
// for one of its errors, by redis.IsOOMError say, finds it.
func sent(text string) error {
	return reflect.ValueOf(text).Convert(sentType).Interface().(error)
}

// wasSent reports whether Redis has sent err.
func wasSent(err error) bool { return reflect.TypeOf(err) == sentType }

// errMore is that of an answer that is not whole.
var errMore = errors.New("there is more to come")

// encode appends a command to out; ok is false when there is an argument in it that
// it does not know how to send.
func encode(out []byte, args []any) (_ []byte, ok bool) {
	out = number(out, '*', int64(len(args)))
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			out = number(out, '$', int64(len(v)))
			out = append(out, v...)
		case int:
			out = integer(out, int64(v))
		case int64:
			out = integer(out, v)
		default:
			return out, false
		}
		out = append(out, '\r', '\n')
	}
	return out, true
}

// number appends a kind and a number, and the end of that line.
func number(out []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(out, kind), n, 10), '\r', '\n')
}

// integer appends an integer as a string, without the end of the line.
func integer(out []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	return append(number(out, '$', int64(len(text))), text...)
}

// parse reads an answer from the beginning of in, of which it is n bytes long. The
// error is errMore, one that Redis has sent, or that in is no answer, with an n of 0.
func parse(in []byte) (a Answer, n int, err error) {
	if in[0] == '*' {
		if ints, n := parseInts(in); n > 0 {
			return Answer{Ints: ints}, n, nil
		}
	}
	v, n, err := parseAny(in, 0)
	if err != nil {
		return Answer{}, 0, err
	}
	switch v := v.(type) {
	case int64:
		return Answer{Int: v}, n, nil
	case error:
		return Answer{}, n, v
	}
	return Answer{Any: v, Other: true}, n, nil
}

// parseInts reads an array of integers; n is 0 when it is none, or not whole.
func parseInts(in []byte) (ints []int64, n int) {
	count, n, err := line(in)
	if err != nil || count < 0 || count > int64(len(in)) {
		return nil, 0
	}
	ints = make([]int64, count)
	for i := range ints {
		if n >= len(in) || in[n] != ':' {
			return nil, 0
		}
		v, length, err := line(in[n:])
		if err != nil {
			return nil, 0
		}
		ints[i] = v
		n += length
	}
	return ints, n
}

// line reads a line that has a number behind its first byte; n is how long it is.
func line(in []byte) (v int64, n int, err error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		return 0, 0, errMore
	}
	if end < 3 || in[end-1] != '\r' {
		return 0, 0, errAnswer
	}
	digits := in[1 : end-1]
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 { // what scripts say fits in
		if v, err = strconv.ParseInt(string(in[1:end-1]), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%w: %q", errAnswer, in[:end])
		}
		return v, end + 1, nil
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, 0, fmt.Errorf("%w: %q", errAnswer, in[:end])
		}
		v = 10*v + int64(d-'0')
	}
	if negative {
		v = -v
	}
	return v, end + 1, nil
}

// longest is how long Redis lets a string be.
const longest = 512 << 20

// deepest is how deep arrays may lie in one another: far deeper than scripts lay them.
const deepest = 16

// parseAny reads anything.
func parseAny(in []byte, depth int) (v any, n int, err error) {
	if len(in) == 0 {
		return nil, 0, errMore
	}
	switch in[0] {
	case '+', '-':
		end := bytes.IndexByte(in, '\n')
		switch {
		case end < 0:
			return nil, 0, errMore
		case end < 1 || in[end-1] != '\r':
			return nil, 0, errAnswer
		}
		text := string(in[1 : end-1])
		if in[0] == '-' {
			return sent(text), end + 1, nil
		}
		return text, end + 1, nil
	case ':':
		return lineOf(in)
	case '$':
		text, n, err := bulk(in)
		if text == nil {
			return nil, n, err
		}
		return string(text), n, err
	case '*':
		return parseArray(in, depth)
	}
	return nil, 0, fmt.Errorf("%w: it begins with %q", errAnswer, in[0])
}

// bulk reads a string, which is nil where Redis's is.
func bulk(in []byte) (text []byte, n int, err error) {
	if len(in) > 0 && in[0] != '$' {
		return nil, 0, fmt.Errorf("%w: it begins with %q", errAnswer, in[0])
	}
	length, n, err := line(in)
	switch {
	case err != nil:
		return nil, 0, err
	case length < 0:
		return nil, n, nil
	case length > longest:
		return nil, 0, errAnswer
	case int64(len(in)-n) < length+2:
		return nil, 0, errMore
	}
	end := n + int(length)
	if in[end] != '\r' || in[end+1] != '\n' {
		return nil, 0, errAnswer
	}
	return in[n:end], end + 2, nil
}

func lineOf(in []byte) (any, int, error) {
	v, n, err := line(in)
	if err != nil {
		return nil, 0, err
	}
	return v, n, nil
}

func parseArray(in []byte, depth int) (any, int, error) {
	count, n, err := line(in)
	switch {
	case err != nil:
		return nil, 0, err
	case count < 0:
		return nil, n, nil
	case depth == deepest:
		return nil, 0, fmt.Errorf("%w: it is too deep", errAnswer)
	}
	list := make([]any, 0, min(count, int64(len(in))))
	for range count {
		v, length, err := parseAny(in[n:], depth+1)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, v)
		n += length
	}
	return list, n, nil
}
