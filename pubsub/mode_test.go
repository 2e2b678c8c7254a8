package pubsub

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestConclude(t *testing.T) {
	const (
		proxy   = replyError("ERR handle response, backend conn reset")
		broken  = replyError("upstream failure")
		denied  = replyError("NOPERM User x has no permissions to run the 'pubsub|shardnumsub' command")
		loading = replyError("LOADING Redis is loading the dataset in memory")
	)
	down := errors.Join(io.EOF)
	tests := []struct {
		name    string
		answers []error
		want    Mode
	}{
		{"all have it", []error{nil, nil, nil}, Sharded},
		{"none has it", []error{errNotSharded, errNotSharded}, Plain},
		{"some have it", []error{nil, errNotSharded, nil}, Both},
		{"may not ask", []error{denied, denied}, Both},
		{"may not ask somewhere", []error{nil, denied}, Both},
		{"one is down", []error{nil, down, nil}, Sharded},
		{"one is loading", []error{errNotSharded, loading}, Plain},
		{"all are down", []error{down, loading}, Auto},
		{"nobody", nil, Auto},
		{"a proxy fails", []error{proxy, broken}, Auto},
		{"a proxy fails once", []error{nil, proxy}, Sharded},
		{"a proxy may not tell", []error{denied, proxy}, Both},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, conclude(tt.answers))
		})
	}
}

// The text of an error does not decide whether a server supports sharded
// pub/sub.
func TestSharded(t *testing.T) {
	const (
		redis62 = "ERR Unknown subcommand or wrong number of arguments for 'shardnumsub'. Try PUBSUB HELP."
		valkey  = "ERR unknown subcommand 'shardnumsub'. Try PUBSUB HELP."
		proxy   = "ERR handle response, backend conn reset"
		broken  = "upstream failure"
		noPub   = "NOPERM User x has no permissions to run the 'pubsub|shardnumsub' command"
		noTable = "NOPERM User x has no permissions to run the 'command|info' command"
	)
	has := []any{[]any{"spublish", int64(3)}}
	tests := []struct {
		name         string
		pubsub       string // the error of PUBSUB SHARDNUMSUB
		table        []any  // the answer to COMMAND INFO
		tableRefused string
		want         string
	}{
		{"has it", "", nil, "", ""},
		{"Redis 6.2", redis62, []any{nil}, "", errNotSharded.Error()},
		{"another text", valkey, []any{nil}, "", errNotSharded.Error()},
		{"a proxy fails once", proxy, has, "", proxy},
		{"a proxy fails", broken, nil, broken, broken},
		{"a proxy has no table", redis62, []any{}, "", redis62},
		{"may not ask", noPub, nil, proxy, noPub},
		{"may not read the table", redis62, nil, noTable, noTable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			defer func() { _ = rdb.Close() }()
			rdb.AddHook(answering(func(cmd *redis.Cmd) error {
				text := tt.pubsub
				if cmd.Name() == "command" {
					cmd.SetVal(tt.table)
					text = tt.tableRefused
				}
				if text == "" {
					return nil
				}
				return replyError(text)
			}))
			err := sharded(t.Context(), rdb)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

// answering is a hook that answers in place of a server.
type answering func(*redis.Cmd) error

func (answering) DialHook(next redis.DialHook) redis.DialHook { return next }
func (answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		err := f(cmd.(*redis.Cmd))
		cmd.SetErr(err)
		return err
	}
}
