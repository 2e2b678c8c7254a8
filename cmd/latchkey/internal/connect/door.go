package connect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/latchkey-go/latchkey/internal/text"
)

// A dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// A door opens the connections to Redis and knows whether a server has ever
// answered. The library retries when a server that it knows refuses, because
// that server may come back. A server that has never answered is more likely to
// have another address or to need another protocol, so its first refusal is
// reported at once.
type door struct {
	addrs []string // the addresses that are tried first

	// mu guards the fields below.
	mu     sync.Mutex
	met    bool            // a server has answered
	failed map[string]bool // addresses that have refused
	tell   func(error)     // is called with the refusal; may be nil
}

// shut makes tell receive the refusal if all addresses refuse and no server has
// answered.
func (d *door) shut(tell func(error)) {
	d.mu.Lock()
	d.tell = tell
	d.mu.Unlock()
}

// refused notes a lasting refusal by addr.
func (d *door) refused(addr string, err error) {
	d.mu.Lock()
	if d.failed == nil {
		d.failed = map[string]bool{}
	}
	d.failed[addr] = true
	tell := d.tell
	for _, a := range d.addrs {
		if !d.failed[a] {
			tell = nil
		}
	}
	if d.met {
		tell = nil
	}
	d.mu.Unlock()
	if tell != nil {
		tell(err)
	}
}

func (d *door) opened() {
	d.mu.Lock()
	d.met = true
	d.mu.Unlock()
}

// dialer returns a dialer. It uses TLS if conf is not nil. A timeout of 0 means 3 s.
func (d *door) dialer(conf *tls.Config, timeout time.Duration) dialer {
	timeout = cmp.Or(timeout, 3*time.Second)
	plain := &net.Dialer{Timeout: timeout, KeepAlive: 5 * time.Minute}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := plain.DialContext(ctx, network, addr)
		if err == nil && conf != nil {
			conn, err = secured(ctx, plain, conn, network, addr, conf)
		}
		if err != nil {
			if !ours(err) {
				d.refused(addr, err)
			}
			return nil, err
		}
		return &caller{Conn: conn, door: d, tls: conf != nil, network: network, addr: addr}, nil
	}
}

// errNoTLS and errTLS say that the server needs the other protocol.
var (
	errNoTLS = errors.New("the server does not speak TLS")
	errTLS   = errors.New("the server speaks TLS only (--tls)")

	// errNobody replaces the end of a connection: a server closes that of an
	// unauthenticated client that sends much.
	errNobody = errors.New("NOAUTH Authentication required")
)

// slow is how long to wait before checking whether the server speaks the
// expected protocol. probing is how long that check may take.
const (
	slow    = 300 * time.Millisecond
	probing = time.Second
)

// secured starts TLS on conn. A Redis without TLS stays silent, because it
// waits for the end of a line.
func secured(ctx context.Context, plain *net.Dialer, conn net.Conn, network, addr string, conf *tls.Config) (net.Conn, error) {
	if conf.ServerName == "" {
		conf = conf.Clone()
		conf.ServerName = addr
		if host, _, err := net.SplitHostPort(addr); err == nil {
			conf.ServerName = host
		}
	}
	secure := tls.Client(conn, conf)
	shaken := make(chan error, 1)
	go func() { shaken <- secure.HandshakeContext(ctx) }()
	var err error
	select {
	case err = <-shaken:
	case <-time.After(slow):
		if speaksPlain(ctx, plain, network, addr) {
			err = errNoTLS
		} else {
			err = <-shaken
		}
	}
	if header, ok := errors.AsType[tls.RecordHeaderError](err); ok && isReply(header.RecordHeader[0]) {
		err = errNoTLS
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// isReply reports whether a reply of Redis may begin with b.
func isReply(b byte) bool { return b == '+' || b == '-' }

// speaksPlain reports whether the server is a Redis without TLS.
func speaksPlain(ctx context.Context, plain *net.Dialer, network, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	conn, err := plain.DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(probing))
	first := make([]byte, 1)
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, first)
	return err == nil && isReply(first[0])
}

// speaksTLS reports whether the server speaks TLS.
func speaksTLS(network, addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probing)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil //nolint:gosec // nothing is said there
}

// A caller is a connection that notes the first answer of its server.
type caller struct {
	net.Conn
	door          *door
	tls           bool
	network, addr string
	answered      atomic.Bool // the first Read has returned
	nobody        atomic.Bool // the first reply was that a password is missing
}

// ours reports whether err is of this side, its deadline or its Close, and says nothing
// of the server.
func ours(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout() || errors.Is(err, net.ErrClosed)
}

// Write writes to the connection. A server that refuses may have closed it by then:
// what it said is still there to be read.
func (c *caller) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil || ours(err) || c.answered.Load() {
		return n, err
	}
	_ = c.SetReadDeadline(time.Now().Add(probing)) // the connection is of no more use
	if _, refusal := c.Read(make([]byte, 1)); refusal != nil && !ours(refusal) {
		err = refusal
	}
	return n, err
}

// Read reads from the connection. A server that closes it without a reply may
// require TLS, or, with TLS, a certificate.
func (c *caller) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.answered.Swap(true) {
		if c.nobody.Load() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			err = errNobody
		}
		return n, err
	}
	c.nobody.Store(bytes.HasPrefix(p[:n], []byte("-NOAUTH")))
	alert := n > 0 && p[0] == 0x15 && !c.tls
	switch {
	case n > 0 && !alert:
		c.door.opened()
	case err == nil && !alert || ours(err):
	case !c.tls && speaksTLS(c.network, c.addr):
		c.door.refused(c.addr, errTLS)
		return 0, errTLS
	default:
		c.door.refused(c.addr, err)
	}
	return n, err
}

// plainly returns an error of the network in words for people, and any other
// error unchanged.
func plainly(err error) error {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return fmt.Errorf("there is no host %s", text.Name(lookup.Name))
		}
		return fmt.Errorf("where the host %s is cannot be found out: %s", text.Name(lookup.Name), lookup.Err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errNoTLS
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errors.New("nobody who is trusted here has signed its certificate (--cacert, or --insecure)")
	}
	op, _ := errors.AsType[*net.OpError](err)
	if op != nil && op.Op == "remote error" { // an alert
		return fmt.Errorf("it ends TLS: %w (--cert and --key are the client's)", op.Err)
	}
	late, ok := errors.AsType[net.Error](err)
	switch call, failed := errors.AsType[*os.SyscallError](err); {
	case ok && late.Timeout() && op != nil && op.Op == "dial":
		return fmt.Errorf("no connection to %s in time", op.Addr)
	case ok && late.Timeout():
		return errors.New("no answer in time")
	case errors.Is(err, io.EOF):
		return errors.New("the server has ended the connection without an answer")
	case errors.Is(err, syscall.ECONNREFUSED) && op != nil && op.Addr != nil:
		return fmt.Errorf("connection refused by %s", op.Addr)
	case failed:
		return call.Err
	}
	return err
}
