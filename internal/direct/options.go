package direct

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// buffer is the size of go-redis's buffers.
const buffer = 4 << 10

// options returns how rdb makes its connections, for a client like it; ok is false
// where go-redis has to see to each connection itself: it changes the password of those
// that it has, closes them when another server is the primary, or lets somebody else
// decide whether a command is sent.
func options(rdb *redis.Client) (o redis.Options, ok bool) {
	o = *rdb.Options()
	if o.Limiter != nil || o.StreamingCredentialsProvider != nil || o.Addr == "FailoverClient" { // as go-redis calls it
		return o, false
	}
	// What go-redis has made of these it would take for something else the second time.
	for _, d := range []*time.Duration{&o.ReadTimeout, &o.WriteTimeout, &o.MinRetryBackoff, &o.MaxRetryBackoff} {
		if *d <= 0 {
			*d--
		}
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = -1
	}
	o.MinIdleConns, o.ClientSideCache, o.ClientSideCacheConfig = 0, nil, nil
	// What is read by go-redis is short: answers of a handshake, and wake-ups.
	o.ReadBufferSize, o.WriteBufferSize = buffer, buffer
	// These belong to the connections of rdb.
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, true
}

// quickly makes what o dials quick, and tells made of it.
func quickly(o *redis.Options, made func(context.Context, net.Conn)) {
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = quicken(conn)
		made(ctx, conn)
		return conn, nil
	}
}

// Subscriber returns a client like rdb for connections that subscribe, which the
// caller closes; nil where that has to be rdb itself, or would gain nothing. It tells
// a [Listener] of them.
func Subscriber(rdb *redis.Client) *redis.Client {
	o, ok := options(rdb)
	if !ok || o.TLSConfig != nil {
		return nil
	}
	o.Protocol = 2 // in which all that comes is an answer or a message
	quickly(&o, dialled)
	return redis.NewClient(&o)
}

// connect makes a connection as o says, and tells made of it before anything is sent.
func connect(ctx context.Context, o redis.Options, made func(net.Conn)) (shut func(), err error) {
	// It has a go-redis client of its own, which makes it, says who the user is, and
	// has nothing more to say or to read from then on.
	quickly(&o, func(_ context.Context, conn net.Conn) { made(conn) })
	client := redis.NewClient(&o)
	session := client.Conn() // go-redis leaves the connection to it
	shut = func() {
		_ = session.Close()
		_ = client.Close()
	}
	if err := session.Ping(ctx).Err(); err != nil {
		shut()
		return nil, err
	}
	return shut, nil
}
