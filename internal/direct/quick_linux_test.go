//go:build linux && (amd64 || arm64) && !race

package direct

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// pair returns two ends of a connection.
func pair(t *testing.T, network, addr string) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	a, err = net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func TestQuickIsAConnection(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr = t.TempDir() + "/s"
			}
			a, b := pair(t, network, addr)
			q := quicken(a)
			require.IsType(t, &quick{}, q)

			// Far more than the kernel takes at once, both ways at the same time.
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
			var group sync.WaitGroup
			for _, end := range []net.Conn{q, b} {
				group.Go(func() {
					n, err := end.Write(data)
					require.NoError(t, err)
					require.Equal(t, len(data), n)
				})
				group.Go(func() {
					got := make([]byte, len(data))
					_, err := io.ReadFull(end, got)
					require.NoError(t, err)
					require.True(t, bytes.Equal(data, got))
				})
			}
			group.Wait()

			n, err := q.Read(nil)
			require.NoError(t, err)
			require.Zero(t, n)
			n, err = q.Write(nil)
			require.NoError(t, err)
			require.Zero(t, n)

			require.NoError(t, q.SetDeadline(time.Now().Add(10*time.Millisecond)))
			_, err = q.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.True(t, timedOut(err))
			n, err = q.Write(data)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Less(t, n, len(data))
			require.NoError(t, q.SetDeadline(time.Time{}))

			done := make(chan error, 1)
			go func() {
				_, err := q.Read(make([]byte, 1))
				done <- err
			}()
			require.NoError(t, q.Close())
			require.ErrorIs(t, <-done, net.ErrClosed)
			_, err = q.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

// What is offered is written whatever deadline is over, as far as there is room.
func TestQuickOffers(t *testing.T) {
	a, b := pair(t, "tcp", "127.0.0.1:0")
	q := quicken(a)
	require.NoError(t, q.SetDeadline(time.Now().Add(-time.Second)))
	_, err := q.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, 3, offer(q, []byte("abc")))
	require.Zero(t, offer(a, []byte("lost")), "not by another connection")
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	n := offer(q, data)
	require.Positive(t, n)
	require.Less(t, n, len(data))
	require.NoError(t, q.SetDeadline(time.Time{}))
	done := make(chan error, 1)
	go func() {
		_, err := q.Write(data[n:])
		done <- err
	}()
	got := make([]byte, 3+len(data))
	_, err = io.ReadFull(b, got)
	require.NoError(t, err)
	require.Equal(t, "abc", string(got[:3]))
	require.True(t, bytes.Equal(data, got[3:]))
	require.NoError(t, <-done)
	require.NoError(t, q.Close())
	require.Zero(t, offer(q, []byte("x")))
	_, err = q.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed, "Write says why")
}

// A slow is a connection whose other side begins to read when a deadline is set.
type slow struct {
	net.Conn
	begin func()
}

func (s slow) SetDeadline(t time.Time) error {
	s.begin()
	return s.Conn.SetDeadline(t)
}

// A command that is longer than the socket takes at once is sent once.
func TestLongCommand(t *testing.T) {
	a, b := pair(t, "tcp", "127.0.0.1:0")
	require.NoError(t, a.(*net.TCPConn).SetWriteBuffer(4<<10))
	q, ok := quicken(a).(*quick)
	require.True(t, ok)
	offered := make(chan struct{})
	q.Conn = slow{q.Conn, sync.OnceFunc(func() { close(offered) })}
	p := &Pool{all: map[*Conn]struct{}{}}
	c := &Conn{net: q, pool: p, shut: func() {}}
	arg := strings.Repeat("x", 256<<10)
	want, _ := encode(nil, []any{"echo", arg})
	got := make([]byte, len(want))
	done := make(chan error, 1)
	go func() {
		<-offered // what there was room for
		_, err := io.ReadFull(b, got)
		if err == nil {
			_, err = io.WriteString(b, ":1\r\n")
		}
		done <- err
	}()
	require.EqualValues(t, 1, do(t, c, "echo", arg).Int)
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := b.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing behind it")
}

// Polling reads what is there, and says so when there is nothing, whatever deadline is
// set; what comes later is not lost.
func TestQuickPolls(t *testing.T) {
	a, b := pair(t, "tcp", "127.0.0.1:0")
	q, ok := quicken(a).(*quick)
	require.True(t, ok)
	got := make([]byte, 8)
	sees := func(want string) {
		t.Helper()
		redistest.Until(t, "the bytes to come", func() bool { return !alive(q) })
		n, err := q.poll(got, time.Now())
		require.NoError(t, err)
		require.Equal(t, want, string(got[:n]))
	}
	require.NoError(t, q.SetDeadline(time.Now().Add(-time.Second)))
	start := time.Now()
	n, err := q.poll(got, start)
	require.ErrorIs(t, err, errNothing)
	require.Zero(t, n)
	require.GreaterOrEqual(t, time.Since(start), pollFor)
	_, err = b.Write([]byte("in time"))
	require.NoError(t, err)
	sees("in time")
	_, err = q.poll(got, time.Now().Add(-time.Second))
	require.ErrorIs(t, err, errNothing)

	require.NoError(t, q.SetDeadline(time.Time{}))
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(q, got[:4])
		done <- err
	}()
	_, err = b.Write([]byte("late"))
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, "late", string(got[:4]))

	_, err = b.Write([]byte("and the end"))
	require.NoError(t, err)
	require.NoError(t, b.Close())
	sees("and the ")
	sees("end")
	redistest.Until(t, "the end to come", func() bool { return !alive(q) })
	_, err = q.poll(got, time.Now())
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, q.Close())
	_, err = q.poll(got, time.Now())
	require.ErrorIs(t, err, net.ErrClosed)

	a, b = pair(t, "tcp", "127.0.0.1:0")
	q, ok = quicken(a).(*quick)
	require.True(t, ok)
	require.NoError(t, b.(*net.TCPConn).SetLinger(0))
	require.NoError(t, b.Close()) // a reset
	redistest.Until(t, "the reset to come", func() bool {
		_, err = q.poll(got, time.Now())
		return !errors.Is(err, errNothing)
	})
	require.ErrorIs(t, err, syscall.ECONNRESET)

	// In a bubble there is no time that passes while somebody runs.
	a, _ = pair(t, "tcp", "127.0.0.1:0")
	q, ok = quicken(a).(*quick)
	require.True(t, ok)
	synctest.Test(t, func(t *testing.T) {
		_, err = q.poll(got, time.Now())
		require.ErrorIs(t, err, errNothing)
	})
}

// An answer that is there is read without sleeping, and one that is not, or not whole, is
// waited for.
func TestAnswerIsPolledFor(t *testing.T) {
	a, b := pair(t, "tcp", "127.0.0.1:0")
	q, ok := quicken(a).(*quick)
	require.True(t, ok)
	c := &Conn{net: q, shut: func() {}}
	sleeps, sleepers := 0, 1
	sleep := q.readable
	later := ""
	q.readable = func(step func(uintptr) bool) error {
		sleeps++
		require.EqualValues(t, sleepers, c.pool.polling.sleepers.Load())
		_, err := io.WriteString(b, later)
		require.NoError(t, err)
		return sleep(step)
	}
	knowsNothing := func() { c.pool = &Pool{all: map[*Conn]struct{}{}} }
	answer := func(early, late string) Answer {
		t.Helper()
		later, sleeps = late, 0
		_, err := io.WriteString(b, early)
		require.NoError(t, err)
		if early != "" {
			redistest.Until(t, "the answer to come", func() bool { return !alive(q) })
		}
		return do(t, c, "ping")
	}
	knowsNothing()
	require.EqualValues(t, 7, answer(":7\r\n", "").Int)
	require.Zero(t, sleeps)
	knowsNothing()
	require.EqualValues(t, 8, answer("", ":8\r\n").Int)
	require.Equal(t, 1, sleeps)
	require.EqualValues(t, 9, answer(":9\r\n", "").Int)
	require.Equal(t, 1, sleeps, "it is not polled for after one that came late")
	knowsNothing()
	require.EqualValues(t, 10, answer(":1", "0\r\n").Int)
	require.Equal(t, 1, sleeps)
	knowsNothing()
	require.EqualValues(t, 11, answer(":11\r\n", "").Int)
	require.Zero(t, sleeps)

	require.Zero(t, c.pool.polling.sleepers.Load())
	later, sleeps, sleepers = ":12\r\n", 0, 0
	_, err := c.Finish(time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, sleeps, "who goes on reading does not poll")
}

// A look at a connection takes nothing from it, and sees its end, whatever deadline is set.
func TestQuickIsLookedAt(t *testing.T) {
	a, b := pair(t, "tcp", "127.0.0.1:0")
	q := quicken(a)
	sys, ok := q.(syscall.Conn)
	require.True(t, ok)
	require.NoError(t, q.SetDeadline(time.Now().Add(-time.Second)))
	require.True(t, alive(sys))
	_, err := b.Write([]byte("unasked"))
	require.NoError(t, err)
	redistest.Until(t, "the bytes to come", func() bool { return !alive(sys) })
	require.NoError(t, q.SetDeadline(time.Time{}))
	got := make([]byte, 7)
	_, err = io.ReadFull(q, got)
	require.NoError(t, err)
	require.True(t, alive(sys))
	require.NoError(t, b.Close())
	redistest.Until(t, "the end to come", func() bool { return !alive(sys) })
	require.NoError(t, q.Close())
	require.False(t, alive(sys))
}

func TestQuickHearsOfTheEnd(t *testing.T) {
	a, b := pair(t, "tcp", "127.0.0.1:0")
	q := quicken(a)
	_, err := b.Write([]byte("last"))
	require.NoError(t, err)
	require.NoError(t, b.Close())
	got, err := io.ReadAll(q)
	require.NoError(t, err)
	require.Equal(t, "last", string(got))

	a, b = pair(t, "tcp", "127.0.0.1:0")
	q = quicken(a)
	require.NoError(t, b.(*net.TCPConn).SetLinger(0))
	require.NoError(t, b.Close()) // a reset
	_, err = q.Read(make([]byte, 1))
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "read", op.Op)
	require.ErrorContains(t, err, "connection reset by peer")
	_, err = q.Write([]byte("x"))
	require.ErrorAs(t, err, &op)
	require.Equal(t, "write", op.Op)
	require.ErrorContains(t, err, "broken pipe")
}

// Whoever has put something around a connection wants to see what goes through it.
func TestQuickensBareSocketsOnly(t *testing.T) {
	a, _ := pair(t, "tcp", "127.0.0.1:0")
	around := struct{ *net.TCPConn }{a.(*net.TCPConn)}
	require.Equal(t, around, quicken(around))
	client := tls.Client(a, &tls.Config{})
	require.Equal(t, client, quicken(client))
}
