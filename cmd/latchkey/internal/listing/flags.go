// Package listing has the flags of the commands that list objects, and prints
// objects.
package listing

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/text"
)

// A Finder finds the objects that the flags of a command select.
type Finder struct{ object.Finder }

// Register adds the flags that select what is listed.
func (f *Finder) Register(cmd *cobra.Command) {
	f.RegisterMatch(cmd)
	cmd.Flags().StringSliceVar(&f.Kinds, "kind", nil, "only these `KINDS`: "+strings.Join(object.KindNames, ", "))
	cmd.Flags().BoolVarP(&f.All, "all", "A", false, "also integers that may be semaphores or latches, and free locks with a token")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(object.KindNames, cobra.ShellCompDirectiveNoFileComp))
}

// RegisterMatch adds the flag that selects names.
func (f *Finder) RegisterMatch(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Match, "match", "", "only names that match the `PATTERN`: * ? [a-z], as in Redis")
}

// Check checks the flags.
func (f *Finder) Check() error {
	for _, k := range f.Kinds {
		if !slices.Contains(object.KindNames, k) {
			return exit.Usagef("%s is no kind; there are %s", text.Name(k), strings.Join(object.KindNames, ", "))
		}
	}
	return nil
}
