package run_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/internal/run"
)

// replied returns what go-redis makes of an error that a server sends.
func replied(t *testing.T, text string) error {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr:       "127.0.0.1:1",
		MaxRetries: -1,
		Protocol:   2,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				r := bufio.NewReader(server)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					switch {
					case strings.EqualFold(line, "hello\r\n"), strings.EqualFold(line, "client\r\n"):
						_, err = io.WriteString(server, "-ERR unknown command\r\n")
					case strings.EqualFold(line, "evalsha\r\n"):
						_, err = io.WriteString(server, "-"+text+"\r\n")
					}
					if err != nil {
						return
					}
				}
			}()
			return client, nil
		},
		DisableIdentity: true,
	})
	defer rdb.Close()
	err := rdb.EvalSha(t.Context(), "sha", nil).Err()
	require.ErrorContains(t, err, text)
	return err
}

// TestClassifyReplies: the texts of Redis 6.2, which wraps what went wrong inside a script,
// of 7.0, 7.4 and 8.2, of Valkey 8 and 9, and of proxies.
func TestClassifyReplies(t *testing.T) {
	const sha = "6b1bf486c81ceb7edf3c093f4c48582e38c0e791"
	in62 := func(text string) string {
		return "ERR Error running script (call to f_" + sha + "): @user_script:12: @user_script: 12: " + text
	}
	in62call := func(text string) string {
		return "ERR Error running script (call to f_" + sha + "): @user_script:12: " + text
	}
	caught62 := func(text string) string { return "@user_script: 12: " + text }
	in7 := func(text string) string { return text + " script: " + sha + ", on @user_script:12." }
	type test struct {
		text string
		want run.Outcome
	}
	tests := []test{
		// It goes away by itself.
		{"LOADING Redis is loading the dataset in memory", run.Retryable},
		{"READONLY You can't write against a read only replica.", run.Retryable},
		{in7("READONLY You can't write against a read only replica."), run.Retryable},
		{in62("-READONLY You can't write against a read only replica."), run.Retryable},
		{caught62("-READONLY You can't write against a read only replica."), run.Retryable},
		{caught62("-OOM command not allowed when used memory > 'maxmemory'."), run.Permanent},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", run.Retryable},
		{"CLUSTERDOWN The cluster is down", run.Retryable},
		{"CLUSTERDOWN Hash slot not served", run.Retryable},
		{"TRYAGAIN Multiple keys request during rehashing of slot", run.Retryable},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", run.Retryable},
		{"MOVED 12182 127.0.0.1:7002", run.Retryable},
		{"ASK 12182 127.0.0.1:7002", run.Retryable},
		{"NOREPLICAS Not enough good replicas to write.", run.Retryable},
		{in7("NOREPLICAS Not enough good replicas to write."), run.Retryable},
		{in62("-NOREPLICAS Not enough good replicas to write."), run.Retryable},
		{"ERR max number of clients reached", run.Retryable},
		{"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", run.Retryable},

		// It does, but what came before it in the script stands.
		{in7("ERR Script attempted to access a non local key in a cluster node"), run.Unknown},
		{in62("Lua script attempted to access a non local key in a cluster node"), run.Unknown},

		// It does not.
		{"OOM command not allowed when used memory > 'maxmemory'.", run.Permanent},
		{in7("OOM command not allowed when used memory > 'maxmemory'."), run.Permanent},
		{in62("-OOM command not allowed when used memory > 'maxmemory'."), run.Permanent},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", run.Permanent},
		{in7("WRONGTYPE Operation against a key holding the wrong kind of value"), run.Permanent},
		{in62call("WRONGTYPE Operation against a key holding the wrong kind of value"), run.Permanent},
		{"NOPERM this user has no permissions to run the 'evalsha' command", run.Permanent},
		{"NOPERM User u has no permissions to run the 'evalsha' command", run.Permanent},
		{"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", run.Permanent},
		{"NOPERM No permissions to access a key", run.Permanent},
		{"NOAUTH Authentication required.", run.Permanent},
		{"WRONGPASS invalid username-password pair or user is disabled.", run.Permanent},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", run.Permanent},
		{in62("-MISCONF Errors writing to the AOF file: No space left on device"), run.Permanent},
		{"CROSSSLOT Keys in request don't hash to the same slot", run.Permanent},
		{"NOSCRIPT No matching script. Please use EVAL.", run.Permanent},
		{"ERR unknown command 'evalsha', with args beginning with: ", run.Permanent},
		{"ERR unknown command `evalsha`, with args beginning with: `OOM`, ", run.Permanent},
		{"NOSCRIPT No matching script.", run.Permanent},
		{"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", run.Retryable},
	}
	inScript := []string{
		caught62("-NOPERM this user has no permissions to access one of the keys used as arguments"),
		caught62("The user executing the script can't run this command or subcommand"),
		in62("The user executing the script can't run this command or subcommand"),
		in62("The user executing the script can't access at least one of the keys mentioned in the command arguments"),
		in7("ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"),
		in7("ERR ACL failure in script: User u has no permissions to run the 'hset' command"),
		in7("ERR ACL failure in script: No permissions to access a key"),
		in7("NOPERM User u has no permissions to run the 'hset' command"),
		in62call("ERR Protocol error"),
		in62call("ERR value is not an integer or out of range"),
		in7("ERR value is not an integer or out of range"),
		in62call("user_script:12: attempt to perform arithmetic on a nil value"),
		in7("ERR user_script:12: attempt to perform arithmetic on a nil value"),
		in62call("Script killed by user with SCRIPT KILL..."),
		in7("ERR Script killed by user with SCRIPT KILL."),
		in62("Unknown Redis command called from Lua script"),
		in7("ERR Unknown command called from script"),
	}
	for _, text := range inScript {
		tests = append(tests, test{text, run.Unknown})
	}
	unknown := []string{
		"ERR something that nobody has seen", "upstream failure", "ERR handle response, backend conn reset",
		"BUSYTEXT is not BUSY", "OOMPH", "ERR a key named: OOM x",
		in7("ERR Command 'set' in script attempted to access keys that don't hash to the same slot"),
		in7("ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing of the slot"),
	}
	for _, text := range unknown {
		tests = append(tests, test{text, run.Unknown})
	}
	for _, tt := range tests {
		err := replied(t, tt.text)
		require.Equal(t, tt.want, run.Classify(err), "Sort of %q", tt.text)
		require.Equal(t, tt.want == run.Permanent || slices.Contains(inScript, tt.text), run.Hopeless(err), "Hopeless of %q", tt.text)
	}
}

// A failover client whose Sentinels do not know the primary yet says so with
// "redis: nil" at the end, and is asked again.
func TestClassifyNoPrimary(t *testing.T) {
	err := fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", redis.Nil)
	require.Equal(t, run.Retryable, run.Classify(err))
	require.Equal(t, run.Unknown, run.Classify(redis.Nil), "an answer that no script gives")
}

// TestClassifyRealErrors: the same from servers in the state that they tell of.
func TestClassifyRealErrors(t *testing.T) {
	const write = `return redis.call('HSET', KEYS[1], 'f', 1)`
	ctx := t.Context()
	errOf := func(rdb redis.UniversalClient, script string) error {
		return rdb.Eval(ctx, script, []string{"k"}).Err()
	}
	noRetry := func(o *redis.Options) { o.MaxRetries = -1 }

	s := redistest.Start(t)
	rdb := s.Client(t, noRetry)
	check := func(t *testing.T, err error, code string, want run.Outcome) {
		t.Helper()
		require.ErrorContains(t, err, code)
		require.Equal(t, want, run.Classify(err), "Sort of %q", err)
	}
	t.Run("WRONGTYPE", func(t *testing.T) {
		s.Do(t, "SET", "k", "x")
		check(t, errOf(rdb, write), "WRONGTYPE", run.Permanent)
		s.Do(t, "DEL", "k")
	})
	t.Run("NOSCRIPT", func(t *testing.T) {
		check(t, rdb.EvalSha(ctx, strings.Repeat("0", 40), nil).Err(), "NOSCRIPT", run.Permanent)
	})
	t.Run("a defect in the script", func(t *testing.T) {
		check(t, errOf(rdb, `return nil + 1`), "arithmetic", run.Unknown)
	})
	t.Run("OOM", func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		check(t, errOf(rdb, write), "OOM", run.Permanent)
		s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	})
	t.Run("NOREPLICAS", func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
		check(t, errOf(rdb, write), "NOREPLICAS", run.Retryable)
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	})
	t.Run("NOPERM", func(t *testing.T) {
		s.Do(t, "ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-eval")
		u := s.Client(t, noRetry, func(o *redis.Options) { o.Username, o.Password = "u", "p" })
		check(t, errOf(u, write), "NOPERM", run.Permanent)
		s.Do(t, "ACL", "SETUSER", "u", "+eval", "-hset")
		err := errOf(u, write)
		check(t, err, "script", run.Unknown)
		require.True(t, run.Hopeless(err), "%q", err)
		require.Regexp(t, "can't run this command|has no permissions to run the 'hset' command", err) // Redis 7.0, later ones
		s.Do(t, "ACL", "SETUSER", "u", "+hset", "resetkeys", "~other")
		check(t, errOf(u, write), "NOPERM", run.Permanent)
	})
	t.Run("WRONGPASS", func(t *testing.T) {
		u := s.Client(t, noRetry, func(o *redis.Options) { o.Username, o.Password = "u", "wrong" })
		check(t, errOf(u, write), "WRONGPASS", run.Permanent)
	})
	t.Run("READONLY", func(t *testing.T) {
		r := redistest.StartReplica(t, s).Client(t, noRetry)
		check(t, errOf(r, write), "READONLY", run.Retryable)
	})
	t.Run("NOAUTH", func(t *testing.T) {
		p := redistest.Start(t)
		c := p.Client(t, noRetry)
		require.NoError(t, c.ConfigSet(ctx, "requirepass", "p").Err())
		check(t, errOf(p.Client(t, noRetry), write), "NOAUTH", run.Permanent)
	})
	t.Run("CLUSTERDOWN", func(t *testing.T) {
		c := redistest.Start(t, "--cluster-enabled", "yes").Client(t, noRetry)
		check(t, errOf(c, write), "CLUSTERDOWN", run.Retryable)
	})
	t.Run("CROSSSLOT", func(t *testing.T) {
		c := redistest.StartCluster(t, 1)
		err := c.Nodes[0].Client(t, noRetry).Eval(ctx, write, []string{"a", "b"}).Err()
		check(t, err, "CROSSSLOT", run.Permanent)
	})
	t.Run("max clients", func(t *testing.T) {
		m := redistest.Start(t)
		m.Do(t, "CONFIG", "SET", "maxclients", "1")
		err := errOf(m.Client(t, noRetry), write)
		require.Error(t, err)
		require.NotEqual(t, run.Permanent, run.Classify(err), "Sort of %q", err)
	})
	t.Run("miniredis", func(t *testing.T) {
		mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), MaxRetries: -1})
		defer mini.Close()
		require.NoError(t, mini.Set(ctx, "k", "x", 0).Err())
		check(t, errOf(mini, write), "WRONGTYPE", run.Permanent)
		check(t, mini.EvalSha(ctx, strings.Repeat("0", 40), nil).Err(), "NOSCRIPT", run.Permanent)
		check(t, errOf(mini, `return nil + 1`), "", run.Unknown)
	})
}

// timeout is a net.Error of a read that took too long.
type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// dialTimeout returns what comes of a dial that a context bounds, as go-redis's do:
// context.DeadlineExceeded for errors.Is, although nothing can have been sent.
func dialTimeout(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	return err
}

// TestClassifyErrorsOfTheWay: what go-redis and the network say.
func TestClassifyErrorsOfTheWay(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want run.Outcome
	}{
		{"no error", nil, run.Executed},
		{"end of file", io.EOF, run.Unknown},
		{"half an answer", io.ErrUnexpectedEOF, run.Unknown},
		{"read timeout", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, run.Unknown},
		{"write timeout", &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, run.Unknown},
		{"connection reset", &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, run.Unknown},
		{"other timeout", timeout{errors.New("i/o timeout")}, run.Unknown},
		{"dial refused", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, run.Retryable},
		{"dial timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, run.Retryable},
		{"dial timeout of go-redis", dialTimeout(t), run.Retryable},
		{"no such host", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}, run.Retryable},
		{"dial refused, wrapped", fmt.Errorf("redis: %w", &net.OpError{Op: "dial", Err: io.EOF}), run.Retryable},
		{"pool timeout", redis.ErrPoolTimeout, run.Retryable},
		{"pool exhausted", redis.ErrPoolExhausted, run.Retryable},
		{"client closed", redis.ErrClosed, run.Permanent},
		{"cancelled", context.Canceled, run.Unknown},
		{"deadline", context.DeadlineExceeded, run.Unknown},
		{"deadline, wrapped", fmt.Errorf("x: %w", context.DeadlineExceeded), run.Unknown},
		{"our client closed", run.ErrClosed, run.Unknown},
		{"cluster without nodes", errors.New("redis: cluster has no nodes"), run.Retryable},
		{"anything else", errors.New("?"), run.Unknown},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, run.Classify(tt.err), tt.name)
	}
}

// TestClassifyRealErrorsOfTheWay: the same, from go-redis.
func TestClassifyRealErrorsOfTheWay(t *testing.T) {
	ctx := t.Context()
	ping := func(rdb *redis.Client) error { return rdb.Ping(ctx).Err() }
	noRetry := func(o *redis.Options) { o.MaxRetries = -1 }

	t.Run("nobody listens", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
		defer rdb.Close()
		require.Equal(t, run.Retryable, run.Classify(ping(rdb)), "Sort of %v", ping(rdb))
	})
	t.Run("closed", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		require.NoError(t, rdb.Close())
		require.Equal(t, run.Permanent, run.Classify(ping(rdb)), "Sort of %v", ping(rdb))
	})
	s := redistest.Start(t)
	for _, act := range []redistest.Act{redistest.LoseRST, redistest.LoseFIN, redistest.Swallow, redistest.RefuseRST} {
		t.Run(act.String(), func(t *testing.T) {
			p := redistest.NewProxy(t, s.Addr)
			rdb := s.Client(t, noRetry, func(o *redis.Options) { o.Addr, o.ReadTimeout = p.Addr(), 100*time.Millisecond })
			require.NoError(t, ping(rdb))
			p.OnNext(1, "ping", act)
			err := ping(rdb)
			require.Error(t, err)
			require.Equal(t, run.Unknown, run.Classify(err), "Sort of %v", err)
		})
	}
	t.Run("no connection free", func(t *testing.T) {
		p := redistest.NewProxy(t, s.Addr)
		rdb := s.Client(t, noRetry, func(o *redis.Options) {
			o.Addr, o.PoolSize, o.PoolTimeout, o.ReadTimeout = p.Addr(), 1, 20*time.Millisecond, 5*time.Second
		})
		p.OnNext(1, "echo", redistest.Hold)
		done := make(chan error, 1)
		go func() { done <- rdb.Echo(ctx, "x").Err() }()
		redistest.Until(t, "the only connection to be busy", func() bool { return p.Count(redistest.Hold) == 1 })
		err := ping(rdb)
		require.Equal(t, run.Retryable, run.Classify(err), "Sort of %v", err)
		p.Release()
		require.NoError(t, <-done)
	})
}
