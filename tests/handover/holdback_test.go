package handover_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// A client that has passed a lock round for its whole slice leaves it to others
// for a while, if others listen: a Java waiter takes a few ms to come.
func TestSlowWaitersHaveTheirTurn(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, env *redistest.Env) {
		c := latchkey.New(env.Redis)
		defer c.Close()
		l := rlock.New(c, "l")
		end := time.Now().Add(2 * time.Second)
		for range 8 {
			go func() {
				for time.Now().Before(end) {
					if h, err := l.Lock(t.Context()); err == nil {
						time.Sleep(time.Millisecond)
						_ = h.Unlock(t.Context())
					}
				}
			}()
		}
		slow := env.Client()
		ps := slow.Subscribe(t.Context(), "redisson_lock__channel:{l}")
		defer ps.Close()
		messages := ps.Channel()
		const take = `if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'java:1', 1) redis.call('PEXPIRE', KEYS[1], 30000) return 1`
		turns := 0
		for time.Now().Before(end) {
			select {
			case <-messages:
			case <-time.After(time.Second):
			}
			time.Sleep(3 * time.Millisecond)
			if took, _ := slow.Eval(t.Context(), take, []string{"l"}).Int(); took == 0 {
				continue
			}
			turns++
			time.Sleep(time.Millisecond)
			slow.Del(t.Context(), "l")
			slow.Publish(t.Context(), "redisson_lock__channel:{l}", "0")
		}
		require.Greater(t, turns, 50, "turns of the slow one in two seconds")
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
