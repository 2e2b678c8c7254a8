package bubble

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What crashes the race detector on two processors, within a minute of runs.
func TestTimersDueAtOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 10 {
		Test(t, func(t *testing.T) {
			require.Equal(t, 1, runtime.GOMAXPROCS(0))
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for range 20 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						first, second := time.NewTimer(time.Second), time.NewTimer(time.Second)
						select {
						case <-ctx.Done():
						case <-first.C:
						}
						select {
						case <-second.C:
						default:
						}
						cancel()
					}
				})
			}
			wg.Wait()
		})
	}
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}

func TestBubblesAtTheSameTime(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Run("all", func(t *testing.T) {
		for range 4 {
			t.Run("one", func(t *testing.T) {
				t.Parallel()
				Test(t, func(t *testing.T) {
					time.Sleep(time.Second)
					require.Equal(t, 1, runtime.GOMAXPROCS(0))
				})
			})
		}
	})
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}

// Every test of this repository takes its bubble from here, those excepted that
// show a reader how to write one.
func TestNobodyElseMakesABubble(t *testing.T) {
	makes, seen := []byte("synctest"+".Test("), 0
	require.NoError(t, fs.WalkDir(os.DirFS("../.."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "examples" || path == ".cache" || path == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile("../../" + path)
		if bytes.Contains(text, makes) {
			seen++
			require.Equal(t, "internal/bubble/bubble.go", path)
		}
		return err
	}))
	require.Equal(t, 1, seen)
}
