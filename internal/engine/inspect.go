package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/lua"
)

// The kinds of lock that a key tells apart; the root's Kind has the same.
const (
	KindFree      = ""
	KindLock      = "lock"
	KindReadWrite = "readwrite"
)

// Inspected is what Redis shows of a lock.
type Inspected struct {
	Kind    string
	Left    time.Duration // 0 when free, -1 when the key has no expiry
	Token   int64
	Holders []InspectedHolder
}

// InspectedHolder is one holder of a lock.
type InspectedHolder struct {
	ID    string
	Label string
	Count int
}

// Inspect tells who holds the lock of that name.
func (e *Engine) Inspect(ctx context.Context, name string) (Inspected, error) {
	key := e.Mapped(name)
	s := &Spec{
		Kind: "latchkey", Name: name, Key: key, Scripts: looking{},
		Keys: []string{key, Prefixed("redisson_lock_token", key)},
	}
	if err := CheckName(name); err != nil {
		return Inspected{}, e.Wrap("info", s, err)
	}
	var in Inspected
	err := e.Ask(ctx, "info", e.Prepare(s), true, func() (err error) {
		in, err = e.inspect(ctx, s)
		return err
	})
	return in, err
}

// looking stands in for the scripts of a lock, none of which Inspect runs.
type looking struct{ Scripts }

// RenewKind names nothing that is renewed.
func (looking) RenewKind() string { return "" }

func (e *Engine) inspect(ctx context.Context, s *Spec) (in Inspected, err error) {
	args := make([]any, Head, Head+2)
	reply, err := e.Eval(ctx, lua.InspectLock, 2, append(args, s.Keys[0], s.Keys[1]))
	if err != nil {
		return in, err
	}
	if len(reply.Any) < 3 {
		return in, Unexpected(lua.InspectLock, reply.Any)
	}
	kind, left, fields := fmt.Sprint(reply.Any[0]), reply.Any[1], reply.Any[3:]
	in.Token, _ = strconv.ParseInt(fmt.Sprint(reply.Any[2]), 10, 64)
	switch kind {
	case "none":
		return in, nil
	case "hash":
		in.Kind = KindLock
	default:
		return in, fmt.Errorf("%w: a %s", ErrKeyConflict, kind)
	}
	in.Left = -1
	if ms, ok := left.(int64); ok && ms >= 0 {
		in.Left = time.Duration(ms) * time.Millisecond
	}
	for i := 0; i+1 < len(fields); i += 2 {
		id := fmt.Sprint(fields[i])
		count, err := strconv.Atoi(fmt.Sprint(fields[i+1]))
		switch {
		case id == "mode":
			in.Kind = KindReadWrite
		case err == nil && strings.Contains(id, ":"):
			in.Holders = append(in.Holders, InspectedHolder{ID: id, Count: count})
		}
	}
	return in, e.labels(ctx, s, in.Holders)
}

// labels fills in the labels of the holders.
func (e *Engine) labels(ctx context.Context, s *Spec, holders []InspectedHolder) error {
	if len(holders) == 0 {
		return nil
	}
	args := make([]any, Head, Head+len(holders))
	for _, h := range holders {
		args = append(args, LabelKey(s.Key, h.ID))
	}
	reply, err := e.Eval(ctx, lua.InspectLabels, len(holders), args)
	if err != nil {
		return err
	}
	for i := range min(len(reply.Any), len(holders)) {
		holders[i].Label = fmt.Sprint(reply.Any[i])
	}
	return nil
}
