//go:build linux && (amd64 || arm64) && !race

package direct

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A quick is a TCP or Unix connection that reads and writes without telling the
// scheduler of Go. The scheduler would prepare for a call that takes long, and wake a
// thread that watches over those; a call that never blocks is back before that thread
// runs, and where one caller waits for one answer at a time, waking it is the dearest
// part of a command but for the network itself.
//
// The race detector takes what passes through a connection of package net for an
// order between the two ends, and knows nothing of this one: it gets the other.
type quick struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer

	// How to run a step: when there is something to read, when there is room to
	// write, and now, which is for a step of out and runs no other. soon is for a step of
	// in: it runs it until there is something to read, or it is pollFor after since.
	readable, writable, now, soon func(step func(fd uintptr) bool) error
	since                         time.Time
}

// A transfer is one direction of a quick.
type transfer struct {
	// mu is held during a transfer, and guards the fields below.
	mu   sync.Mutex
	step func(fd uintptr) bool // moves what it can; false: there is nothing to be done yet
	buf  []byte
	n    int // bytes moved
	err  syscall.Errno
}

// quicken returns conn as a quick, or as it is where it is of another type, which may
// do more than to read and write.
func quicken(conn net.Conn) net.Conn {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return conn
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return conn
	}
	q := &quick{Conn: conn, raw: raw, readable: raw.Read, writable: raw.Write}
	q.in.step = func(fd uintptr) bool {
		q.in.once(syscall.SYS_RECVFROM, fd, syscall.MSG_DONTWAIT)
		return q.in.err != syscall.EAGAIN
	}
	q.out.step = func(fd uintptr) bool {
		for q.out.n < len(q.out.buf) && q.out.err == 0 {
			q.out.once(syscall.SYS_SENDTO, fd, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		}
		if q.out.err == syscall.EAGAIN {
			q.out.err = 0
			return false
		}
		return true
	}
	offer := func(fd uintptr) { q.out.step(fd) }
	q.now = func(func(fd uintptr) bool) error { return raw.Control(offer) }
	look := func(fd uintptr) {
		for range looks { // in a bubble of fake time pollFor is never over
			runtime.Gosched() // whoever has something to do does it meanwhile
			if q.in.step(fd) || time.Since(q.since) >= pollFor {
				return
			}
		}
	}
	q.soon = func(func(fd uintptr) bool) error { return raw.Control(look) }
	return q
}

// offer writes what conn takes at once, whatever deadline is set, and returns how
// much that is: nothing where that cannot be had, or where Write will say why not.
func offer(conn net.Conn, b []byte) int {
	q, ok := conn.(*quick)
	if !ok {
		return 0
	}
	n, _, _ := q.out.move(b, q.now)
	return n
}

// once makes one call that does not block.
func (t *transfer) once(call, fd, flags uintptr) {
	rest := t.buf[t.n:]
	for {
		n, _, err := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), flags, 0, 0)
		if err == syscall.EINTR {
			continue
		}
		if t.err = err; err == 0 {
			t.n += int(n)
		}
		return
	}
}

// move moves b by way of f, which runs step when the time has come.
func (t *transfer) move(b []byte, f func(func(fd uintptr) bool) error) (int, syscall.Errno, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf, t.n, t.err = b, 0, 0
	err := f(t.step)
	t.buf = nil
	return t.n, t.err, err
}

// SyscallConn is how go-redis looks whether the other side has closed the connection.
func (q *quick) SyscallConn() (syscall.RawConn, error) { return q.raw, nil }

func (q *quick) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, errno, err := q.in.move(b, q.readable)
	return q.read(n, errno, err)
}

// poll reads what comes within pollFor of since, whatever deadline is set, and does not
// sleep. One at a time does. The error is errNothing when nothing has come.
func (q *quick) poll(b []byte, since time.Time) (int, error) {
	q.since = since
	n, errno, err := q.in.move(b, q.soon)
	if errno == syscall.EAGAIN {
		return 0, errNothing
	}
	return q.read(n, errno, err)
}

// read returns what Read does.
func (q *quick) read(n int, errno syscall.Errno, err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, q.failed("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (q *quick) Write(b []byte) (int, error) {
	n, errno, err := q.out.move(b, q.writable)
	if err == nil && errno != 0 {
		err = q.failed("write", errno)
	}
	return n, err
}

func (q *quick) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: q.LocalAddr().Network(), Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// silent reports whether there is nothing to read, not even the end.
func silent(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, syscall.MSG_DONTWAIT|syscall.MSG_PEEK, 0, 0)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}
