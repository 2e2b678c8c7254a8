package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/locktest"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/semaphore"
)

// waiting starts to acquire n permits on a goroutine of its own.
func waiting(t *testing.T, s *semaphore.Semaphore, n int) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- s.Acquire(t.Context(), n) }()
	synctest.Wait()
	return ch
}

// scripts returns the number of scripts that were run.
func scripts(env *redistest.Env) int64 { return env.Commands("evalsha") + env.Commands("eval") }

// contend makes one caller hold the one permit, which Redis granted while the
// others waited.
func contend(t *testing.T, s *semaphore.Semaphore, others int) (waiters []<-chan error) {
	require.NoError(t, s.Acquire(t.Context(), 1))
	for range others + 1 {
		waiters = append(waiters, waiting(t, s, 1))
	}
	require.NoError(t, s.Release(t.Context(), 1)) // nobody waited when it was granted: to Redis
	synctest.Wait()
	require.NoError(t, <-waiters[0])
	return waiters[1:]
}

func TestPermitGoesOnInMemory(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		s := set(t, c, "s", 1)
		waiters := contend(t, s, 5)
		before := scripts(env)
		for _, w := range waiters { // first come, first served
			require.NoError(t, s.Release(t.Context(), 1))
			synctest.Wait()
			select {
			case err := <-w:
				require.NoError(t, err)
			default:
				require.FailNow(t, "the next one has nothing")
			}
		}
		assert.Equal(t, before, scripts(env), "scripts for what went on in memory")
		assert.Zero(t, available(t, s))
		require.NoError(t, s.Release(t.Context(), 1))
		assert.Equal(t, 1, available(t, s))
	})
}

// Redisson has one Redis channel for the semaphores s and {s}. A permit of one
// is not handed over to waiters of the other.
func TestPermitStaysWithItsName(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, _ *redistest.Env, c *latchkey.Client) {
		s, other := set(t, c, "s", 1), set(t, c, "{s}", 1)
		require.NoError(t, other.Acquire(t.Context(), 1))
		waits := waiting(t, other, 1)
		waiters := contend(t, s, 1)
		require.NoError(t, s.Release(t.Context(), 1))
		synctest.Wait()
		require.Empty(t, waits, "it was given another one's permit")
		require.NoError(t, <-waiters[0])
		require.NoError(t, s.Release(t.Context(), 1))
		require.NoError(t, other.Release(t.Context(), 1))
		require.NoError(t, <-waits)
		require.NoError(t, other.Release(t.Context(), 1))
		require.Equal(t, []int{1, 1}, []int{available(t, s), available(t, other)})
	})
}

func TestPermitGoesBackAtTheEndOfItsSlice(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		s := set(t, c, "s", 1)
		waiters := contend(t, s, 1)
		time.Sleep(10 * time.Millisecond)
		before := scripts(env)
		require.NoError(t, s.Release(t.Context(), 1))
		assert.Greater(t, scripts(env), before)
		synctest.Wait()
		require.NoError(t, <-waiters[0])
		require.NoError(t, s.Release(t.Context(), 1))
	})
}

func TestPermitsGoOnOnlyToWhomTheyAreEnough(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		s := set(t, c, "s", 3)
		require.NoError(t, s.Acquire(t.Context(), 3))
		first, big, small := waiting(t, s, 3), waiting(t, s, 2), waiting(t, s, 1)
		require.NoError(t, s.Release(t.Context(), 3))
		synctest.Wait()
		require.NoError(t, <-first)
		require.NoError(t, s.Release(t.Context(), 1)) // big is next, and wants two
		synctest.Wait()
		assert.Empty(t, big)
		assert.Empty(t, small, "it went past one who came earlier")
		require.NoError(t, s.Release(t.Context(), 1))
		synctest.Wait()
		require.NoError(t, <-big)
		assert.Empty(t, small)
		require.NoError(t, s.Release(t.Context(), 2))
		synctest.Wait()
		require.NoError(t, <-small)
		require.NoError(t, s.Release(t.Context(), 2))
		assert.Equal(t, 3, available(t, s))
	})
}

// Some permits have been handed over, and Redis refuses the others. The error
// must not suggest to the caller that it may give all of them back again.
func TestPermitsGoOnInPart(t *testing.T) {
	locktest.InFakeTime(t, func(t *testing.T, env *redistest.Env, c *latchkey.Client) {
		s := set(t, c, "s", 3)
		require.NoError(t, s.Acquire(t.Context(), 3))
		first, next := waiting(t, s, 3), waiting(t, s, 1)
		require.NoError(t, s.Release(t.Context(), 3))
		synctest.Wait()
		require.NoError(t, <-first)
		env.Mini.SetError("NOPERM not now")
		err := s.Release(t.Context(), 3)
		env.Mini.SetError("")
		require.NoError(t, <-next)
		var e *latchkey.Error
		require.ErrorAs(t, err, &e)
		assert.True(t, e.MaybeApplied())
		require.ErrorContains(t, err, `semaphore: release "s": 1 of 3 `)
		require.ErrorContains(t, err, "NOPERM not now")
		require.NoError(t, s.Release(t.Context(), 3)) // the one and the others
		assert.Equal(t, 3, available(t, s))
	})
}

func TestPermitsNeverGoOnWithoutHandOver(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		s := set(t, locktest.NewClient(t, env.Redis, latchkey.WithHandOver(0)), "s", 1)
		waiters := contend(t, s, 1)
		before := scripts(env)
		require.NoError(t, s.Release(t.Context(), 1))
		assert.Greater(t, scripts(env), before)
		synctest.Wait()
		require.NoError(t, <-waiters[0])
	})
}

// Waiting clients get their turn although another client always has waiters of
// its own.
func TestPermitsGoRoundTheClients(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		greedy, other := locktest.NewClient(t, env.Redis), locktest.NewClient(t, env.Client())
		s := set(t, greedy, "s", 2)
		end := time.Now().Add(time.Second)
		for range 8 {
			go func() {
				for time.Now().Before(end) {
					if assert.NoError(t, s.Acquire(t.Context(), 1)) {
						time.Sleep(time.Millisecond)
						assert.NoError(t, s.Release(t.Context(), 1))
					}
				}
			}()
		}
		time.Sleep(50 * time.Millisecond)
		turns := 0
		for o := semaphore.New(other, "s"); time.Now().Before(end); turns++ {
			require.NoError(t, o.Acquire(t.Context(), 1))
			require.NoError(t, o.Release(t.Context(), 1))
		}
		assert.Greater(t, turns, 20, "turns of the other client in a second")
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, 2, available(t, s))
	})
}
