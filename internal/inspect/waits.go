package inspect

import (
	"context"

	"github.com/latchkey-go/latchkey/internal/engine"
	"github.com/latchkey-go/latchkey/internal/names"
	"github.com/latchkey-go/latchkey/internal/run"
)

// Waits returns what holders of a name wait for, by their ids as the object shows them.
// Only holders whose clients publish it are known.
func Waits(ctx context.Context, c engine.Host, name string, ids []string) (map[string][]engine.Waited, error) {
	e, key := engine.Of(c), engine.Mapped(c, name)
	s := e.Prepare(&engine.Spec{Kind: "latchkey", Name: name, Key: key, Keys: []string{key}})
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = names.Waits(key, id)
	}
	waits := map[string][]engine.Waited{}
	err := e.Ask(ctx, "explain", s, true, func(ctx context.Context, opts run.Options) error {
		return eachSide(ctx, e, opts, keys, func(i int, text string, _ int64) {
			if all := engine.ParseWaited(text); len(all) > 0 {
				waits[ids[i]] = all
			}
		})
	})
	return waits, err
}
