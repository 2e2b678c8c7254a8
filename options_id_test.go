package latchkey_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
)

// WithID checks the characters of an id.
func TestIDOption(t *testing.T) {
	require.PanicsWithValue(t, `latchkey: WithID: the id "worker 1" has ' ' in it: it may have letters, digits, punctuation and symbols, and no spaces`,
		func() { latchkey.WithID("worker 1") })
	require.NotPanics(t, func() { latchkey.WithID("10.0.0.7:8080") })
}
