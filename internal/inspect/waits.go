package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
	"github.com/latchkey-go/latchkey/lua"
)

// Waits returns what holders of a name wait for, by their ids as the object shows them.
// Only holders whose clients publish it are known.
func Waits(ctx context.Context, e *engine.Engine, name string, ids []string) (map[string][]engine.Waited, error) {
	key := e.Mapped(name)
	s := e.Prepare(&engine.Spec{Kind: "latchkey", Name: name, Key: key, Keys: []string{key}})
	waits := map[string][]engine.Waited{}
	err := e.Ask(ctx, "explain", s, true, func(ctx context.Context, opts run.Options) error {
		for batch := range slices.Chunk(ids, sideBatch) {
			args := make([]any, run.Head, run.Head+len(batch))
			for _, id := range batch {
				args = append(args, names.Waits(key, id))
			}
			reply, err := e.Eval(ctx, opts, lua.InspectSides, len(batch), args)
			switch {
			case err != nil:
				return err
			case len(reply.Any) != 2*len(batch):
				return run.Unexpected(lua.InspectSides, reply.Any)
			}
			for i, id := range batch {
				if all := engine.ParseWaited(fmt.Sprint(reply.Any[2*i])); len(all) > 0 {
					waits[id] = all
				}
			}
		}
		return nil
	})
	return waits, err
}
