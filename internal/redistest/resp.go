package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// maxItems bounds the lengths that the parser accepts, so that a parser that is
// out of step fails instead of allocating all memory.
const maxItems = 1 << 28

var errProtocol = errors.New("redistest: malformed RESP")

// message is one complete value sent by a server.
type message struct {
	kind byte     // '+', '-', ':', '$', '*', '>' and so on
	raw  []byte   // as received, attributes included
	flat []string // all scalars in it, depth first; null is ""
}

func readMessage(r *bufio.Reader) (message, error) {
	var m message
	var err error
	m.kind, err = m.read(r, true)
	return m, err
}

// read appends one value to m and returns its type.
func (m *message) read(r *bufio.Reader, keep bool) (byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	m.raw = append(m.raw, line...)
	kind, text := line[0], strings.TrimRight(string(line[1:]), "\r\n")
	items, each := 0, keep
	switch kind {
	case '$', '=', '!':
		n, err := length(text)
		if err != nil {
			return 0, err
		}
		text = ""
		if n >= 0 {
			b := make([]byte, n+2)
			if _, err := io.ReadFull(r, b); err != nil {
				return 0, err
			}
			m.raw = append(m.raw, b...)
			text = string(b[:n])
		}
	case '*', '~', '>', '%', '|':
		if items, err = length(text); err != nil {
			return 0, err
		}
		if kind == '%' || kind == '|' {
			items *= 2
		}
		each = keep && kind != '|'
	case '_':
		text = ""
	case '+', '-', ':', ',', '#', '(':
	default:
		return 0, fmt.Errorf("%w: type %q", errProtocol, kind)
	}
	if items == 0 && keep && !strings.ContainsRune("*~>%|", rune(kind)) {
		m.flat = append(m.flat, text)
	}
	for range items {
		if _, err := m.read(r, each); err != nil {
			return 0, err
		}
	}
	if kind == '|' { // attributes precede their value
		return m.read(r, keep)
	}
	return kind, nil
}

// readCommand reads one command of a client. An empty line has no args and gets
// no reply.
func readCommand(r *bufio.Reader) (raw []byte, args []string, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	if line[0] != '*' {
		return line, strings.Fields(string(line)), nil
	}
	n, err := length(strings.TrimRight(string(line[1:]), "\r\n"))
	if err != nil {
		return nil, nil, err
	}
	raw = append(raw, line...)
	for range n {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, nil, err
		}
		if line[0] != '$' {
			return nil, nil, errProtocol
		}
		size, err := length(strings.TrimRight(string(line[1:]), "\r\n"))
		if err != nil || size < 0 {
			return nil, nil, errProtocol
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, nil, err
		}
		raw = append(append(raw, line...), b...)
		args = append(args, string(b[:size]))
	}
	return raw, args, nil
}

// length parses a count; -1 means null.
func length(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -1 || n > maxItems {
		return 0, fmt.Errorf("%w: length %q", errProtocol, s)
	}
	return n, nil
}

// isSetup reports whether a command sets up a connection. The number of such
// commands depends on the pool, not on the test.
func isSetup(name string) bool {
	switch strings.ToLower(name) {
	case "hello", "client", "auth", "select":
		return true
	}
	return false
}

// wire is a bare connection for the commands of this package. It sends nothing
// by itself and has no goroutines.
type wire struct {
	net.Conn
	r *bufio.Reader
}

func dialWire(addr string) (*wire, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &wire{c, bufio.NewReader(c)}, nil
}

// do sends a command and returns the scalars of its reply.
func (w *wire) do(args ...string) ([]string, error) {
	if err := w.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	m, err := readMessage(w.r)
	if err != nil {
		return nil, err
	}
	if m.kind == '-' {
		return nil, errReply(m.flat[0])
	}
	return m.flat, nil
}

// errReply is an error the server answered with.
type errReply string

func (e errReply) Error() string { return string(e) }
