package pubsub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/pubsub"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.LeakOptions()...)
}

var bg = context.Background()

// patience is how long to wait for something that must happen at some time.
const patience = 10 * time.Second

func newNotifier(t testing.TB, rdb redis.UniversalClient, cfg pubsub.Config) *pubsub.Notifier {
	t.Helper()
	n := pubsub.New(redistest.UserOnAny(t, rdb), cfg)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// auto returns the mode that Auto becomes in a cluster.
func auto() pubsub.Mode {
	if redistest.Sharded() {
		return pubsub.Sharded
	}
	return pubsub.Plain
}

// modes returns the modes in which the server can be subscribed to, and the
// most comprehensive of them as most.
func modes() map[string]pubsub.Mode {
	if redistest.Sharded() {
		return map[string]pubsub.Mode{"plain": pubsub.Plain, "sharded": pubsub.Sharded, "both": pubsub.Both}
	}
	return map[string]pubsub.Mode{"plain": pubsub.Plain}
}

func most() pubsub.Mode {
	if redistest.Sharded() {
		return pubsub.Both
	}
	return pubsub.Plain
}

// publishAs publishes as a client of that mode does.
func publishAs(mode pubsub.Mode, rdb redis.UniversalClient, channel string) *redis.IntCmd {
	if mode == pubsub.Sharded {
		return rdb.SPublish(bg, channel, "x")
	}
	return rdb.Publish(bg, channel, "x")
}

// await receives hints until the subscription is in the state want.
func await(t testing.TB, s *pubsub.Subscription, want pubsub.State) {
	t.Helper()
	awaitWithin(t, patience, s, want)
}

func awaitWithin(t testing.TB, d time.Duration, s *pubsub.Subscription, want pubsub.State) {
	t.Helper()
	timeout := time.After(d)
	for s.State() != want {
		select {
		case <-s.C():
		case <-timeout:
			require.FailNow(t, "state not reached", "want %v, is %v (%v)", want, s.State(), s.Err())
		}
	}
}

// live subscribes, waits for the confirmation, and receives its hint.
func live(t testing.TB, n *pubsub.Notifier, name string) *pubsub.Subscription {
	t.Helper()
	s := n.Subscribe(name)
	hint(t, s)
	require.Equal(t, pubsub.Live, s.State(), "%v", s.Err())
	return s
}

func hint(t testing.TB, s *pubsub.Subscription) {
	t.Helper()
	hintWithin(t, patience, s)
}

func hintWithin(t testing.TB, d time.Duration, s *pubsub.Subscription) {
	t.Helper()
	select {
	case <-s.C():
	case <-time.After(d):
		require.FailNow(t, "no hint", "state %v", s.State())
	}
}

func noHint(t testing.TB, s *pubsub.Subscription) {
	t.Helper()
	select {
	case <-s.C():
		require.FailNow(t, "unexpected hint")
	default:
	}
}

func drain(s *pubsub.Subscription) {
	select {
	case <-s.C():
	default:
	}
}

func publish(t testing.TB, rdb redis.UniversalClient, name string) {
	t.Helper()
	require.NoError(t, rdb.Publish(bg, name, "x").Err())
}

// channels returns the names for which a server has subscribers.
func channels(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	return s.Do(t, "PUBSUB", "CHANNELS")
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

func resp2(o *redis.Options) { o.Protocol = 2 }
func resp3(o *redis.Options) { o.Protocol = 3 }

func through(p *redistest.Proxy) func(*redis.Options) {
	return func(o *redis.Options) { o.Addr = p.Addr() }
}

func as(user string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = user, "pw" }
}

// subscribers returns the number of the server's pub/sub connections.
func subscribers(t testing.TB, s *redistest.Server) int {
	t.Helper()
	list := strings.Join(s.Do(t, "CLIENT", "LIST", "TYPE", "PUBSUB"), "\n")
	return strings.Count(list, "id=")
}
