package redistest

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// NoDeadlines makes a client use connections without deadlines, such as those
// through an SSH tunnel, with the options that go-redis needs for them.
func NoDeadlines(o *redis.Options) {
	o.ReadTimeout, o.WriteTimeout = -2, -2
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return noDeadlines{c}, err
	}
}

type noDeadlines struct{ net.Conn }

func (noDeadlines) SetDeadline(time.Time) error      { return errNoDeadlines }
func (noDeadlines) SetReadDeadline(time.Time) error  { return errNoDeadlines }
func (noDeadlines) SetWriteDeadline(time.Time) error { return errNoDeadlines }

var errNoDeadlines = errors.New("deadlines are not supported")
