package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/bubble"
)

// What refuses would refuse again; what takes too long, or is short of something here,
// may not.
func TestRefused(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	call := func(n syscall.Errno) error { return dial(os.NewSyscallError("connect", n)) }
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nobody listens", call(syscall.ECONNREFUSED), true},
		{"no such socket", call(syscall.ENOENT), true},
		{"no such host", dial(&net.DNSError{IsNotFound: true}), true},
		{"no TLS", tls.RecordHeaderError{}, true},
		{"certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true},
		{"alert", &net.OpError{Op: "remote error", Err: tls.AlertError(42)}, true},
		{"wrapped", fmt.Errorf("x: %w", call(syscall.ECONNREFUSED)), true},
		{"all of several", fmt.Errorf("x: %w", errors.Join(call(syscall.ECONNREFUSED), call(syscall.ENOENT))), true},
		{"one of several", fmt.Errorf("x: %w", errors.Join(call(syscall.ECONNREFUSED), io.EOF)), false},
		{"a name server is busy", dial(&net.DNSError{IsTemporary: true}), false},
		{"a name server is silent", dial(&net.DNSError{IsTimeout: true}), false},
		{"connect takes too long", call(syscall.ETIMEDOUT), false},
		{"too many files", call(syscall.EMFILE), false},
		{"context", dial(context.DeadlineExceeded), false},
		{"cancelled", dial(context.Canceled), false},
		{"read", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, false},
		{"pool", redis.ErrPoolTimeout, false},
		{"end", io.EOF, false},
	} {
		require.Equal(t, tt.want, refused(tt.err), tt.name)
	}
}

// A request that takes all the time there is leaves none for another one, but where it
// was go-redis that ended it.
func TestUnanswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		asked := time.Now()
		time.Sleep(3 * time.Second)
		now := time.Now()
		require.Equal(t, asked, Unanswered(asked, now, 3*time.Second, silence(3*time.Second)))
		require.Equal(t, RetryMost, Unanswered(asked, now, 3*time.Second, io.EOF).Add(3*time.Second).Sub(now))
		require.Equal(t, asked, Unanswered(asked, now, time.Minute, io.EOF))
		require.Equal(t, now, Unanswered(asked, now, time.Millisecond, io.EOF))
	})
}
