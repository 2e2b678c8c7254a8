package redistest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgram checks that a program gets its errors and that cleanups run in
// the order of a test's.
func TestProgram(t *testing.T) {
	var order []string
	var dir string
	err := Program(t.Context(), nil, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() {
			order = append(order, "second")
			require.ErrorIs(t, t.Context().Err(), context.Canceled)
			t.Fatal("in a cleanup")
		})
		dir = t.TempDir()
		t.Errorf("one %s", "error")
		t.Fatal("the end")
		order = append(order, "behind Fatal")
	})
	require.Equal(t, []string{"second", "first"}, order)
	require.NoDirExists(t, dir)
	require.Equal(t, []string{"one error", "the end", "in a cleanup"}, strings.Split(err.Error(), "\n"))
	require.NoError(t, Program(t.Context(), nil, func(testing.TB) {}))
}
