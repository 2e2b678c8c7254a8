package pubsub

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestConclude(t *testing.T) {
	const (
		redis62 = replyError("ERR Unknown subcommand or wrong number of arguments for 'shardnumsub'. Try PUBSUB HELP.")
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
		{"none has it", []error{redis62, redis62}, Plain},
		{"some have it", []error{nil, redis62, nil}, Both},
		{"may not ask", []error{denied, denied}, Both},
		{"may not ask somewhere", []error{nil, denied}, Both},
		{"one is down", []error{nil, down, nil}, Sharded},
		{"one is loading", []error{redis62, loading}, Plain},
		{"all are down", []error{down, loading}, Auto},
		{"nobody", nil, Auto},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, conclude(tt.answers))
		})
	}
}
