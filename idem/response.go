package idem

import (
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// A response is what is kept of one.
type response struct {
	status int
	header http.Header
	body   []byte
	large  bool // header and body were above the bound, and are not kept
}

// version is the first byte of an encoded response. The second one has flags.
const (
	version   = 1
	flagLarge = 1
)

// encode returns the text that Redis keeps of a response: the version, flags, the
// status, the number of fields and each field's name, number of values and values, all
// with their lengths before them, and then the body.
func (r *response) encode() []byte {
	b := make([]byte, 0, 512+len(r.body))
	flags := byte(0)
	if r.large {
		flags = flagLarge
	}
	b = append(b, version, flags)
	number := func(n int) { b = binary.AppendUvarint(b, uint64(n)) }
	text := func(s string) {
		number(len(s))
		b = append(b, s...)
	}
	number(r.status)
	number(len(r.header))
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		text(name)
		number(len(r.header[name]))
		for _, value := range r.header[name] {
			text(value)
		}
	}
	return append(b, r.body...)
}

// errStored is the error of decode.
var errStored = errors.New("the response that is kept cannot be read: another version of latchkey may have written it")

// decode returns the response that encode made b of.
func decode(b []byte) (*response, error) {
	if len(b) < 2 || b[0] != version || b[1]&^flagLarge != 0 {
		return nil, errStored
	}
	r := &response{large: b[1] == flagLarge, header: http.Header{}}
	b = b[2:]
	number := func(most int) (n int, ok bool) {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > uint64(most) {
			return 0, false
		}
		b = b[size:]
		return int(v), true
	}
	text := func() (s string, ok bool) {
		n, ok := number(len(b))
		if !ok || n > len(b) { // the length took some of b
			return "", false
		}
		s, b = string(b[:n]), b[n:]
		return s, true
	}
	var ok bool
	if r.status, ok = number(999); !ok || r.status < 200 {
		return nil, errStored
	}
	fields, ok := number(len(b))
	for range fields {
		var name string
		var values int
		if name, ok = text(); !ok {
			break
		}
		if values, ok = number(len(b)); !ok {
			break
		}
		all := make([]string, 0, min(values, 8))
		for range values {
			var value string
			if value, ok = text(); !ok {
				break
			}
			all = append(all, value)
		}
		if !ok {
			break
		}
		r.header[name] = all
	}
	if !ok {
		return nil, errStored
	}
	r.body = b
	return r, nil
}

// send sends a response that is kept.
func (r *response) send(w http.ResponseWriter) {
	h := w.Header()
	maps.Copy(h, r.header)
	h.Set("Idempotency-Replayed", "true")
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // the client has gone, or the method is HEAD
}

// ofConnection reports whether a field is about one connection or message, and so is
// never kept. name is in canonical form.
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Date", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Idempotency-Replayed":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, http.TrailerPrefix)
}
