package names

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whatever stands beside an object leads back to it.
func TestOwner(t *testing.T) {
	const client = "0b7c9a3e-9d0a-4c58-8f7e-4f1f3c3b6a51"
	const holder = client + ":17"
	for _, name := range []string{"orders:42", "a", "a}b", "tag{x}y", "{x}y", "x{", "timeout", "a:timeout", "with space", "\x1b[31m\n", "日本"} {
		for key, want := range map[string]Side{
			Token(name):                             SideToken,
			Prefixed("redisson_lock_queue", name):   SideQueue,
			Prefixed("redisson_lock_timeout", name): SideQueue,
			Prefixed("latchkey_queue", name):        SideQueue,
			Prefixed("latchkey_writer", name):       SideNote,
			Prefixed("latchkey_ended", name):        SideNote,
			Label(name, holder):                     SideNote,
			Label(name, holder+":write"):            SideNote,
			PermitLabel(name, "0123456789abcdef"):   SideNote,
			Prefixed("latchkey_group", name) + ":" + holder + ":zxy+/AAAAAAAAAAAAAAAAA": SideNote,
			Label(name, "worker-3:9"):                                    SideNote,
			Claim(name, holder):                                          SideNote,
			Waits(name, holder):                                          SideNote,
			Waits(name, holder+":write"):                                 SideNote,
			Run(name, "1800000000000"):                                   SideRun,
			Runs(name):                                                   SideRun,
			Leader(name):                                                 SideNote,
			LeaderChannel(Leader(name)):                                  SideNote,
			Suffixed(name, "timeout"):                                    SideTimeout,
			Suffixed(name, holder) + ":rwlock_timeout:2":                 SideTimeout,
			Prefixed("redisson_lock__channel", name):                     SideWakeUps,
			Prefixed("redisson_lock__channel", name) + ":" + holder:      SideWakeUps,
			Prefixed("redisson_lock__channel", name) + ":" + client:      SideWakeUps,
			Prefixed("redisson_lock__channel", name) + ":" + rand.Text(): SideWakeUps,
			Prefixed("redisson_rwlock", name):                            SideWakeUps,
			Prefixed("redisson_sc", name):                                SideWakeUps,
			"redisson_countdownlatch__channel__{" + name + "}":           SideWakeUps,
		} {
			got, side := Owner(key)
			assert.Equal(t, name, got, key)
			assert.Equal(t, want, side, key)
		}
		if name != "{x}y" {
			got, side := Owner(name)
			assert.Empty(t, got)
			assert.Equal(t, NoSide, side, name)
		}
	}
	for _, key := range []string{Ours("latchkey_ended", "{a}"), Label("{a}", holder), Claim("{a}", holder), Waits("{a}", holder)} {
		name, side := Owner(key)
		assert.Equal(t, "{a}", name, key)
		assert.Equal(t, SideNote, side, key)
		assert.Equal(t, Slot("a"), Slot(key), key)
	}
	for _, key := range []string{"", "redisson_sc:", "redisson_lock_queue", "session:timeout", "rwlock_timeout:1", "{a}:timeouts"} {
		name, side := Owner(key)
		assert.Empty(t, name, key)
		assert.Equal(t, NoSide, side, key)
	}
}

// The keys of what came of a call lead back to it, and differ between kinds and names.
func TestMemo(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{"x", "{x}", "app:x", "a b{c}d", "{a}{}", "{x}:latchkey_flight_value", "{x}:latchkey_flight"} {
		for _, kind := range []string{"flight", "idem"} {
			lock, note, value := Memo(kind, key)
			for _, k := range []string{lock, note, value} {
				assert.False(t, seen[k], "%q of %q", k, key)
				seen[k] = true
				assert.Equal(t, Slot(key), Slot(k), "%q of %q", k, key)
			}
			for _, k := range []string{note, value} {
				name, side := Owner(k)
				assert.Equal(t, key, name, k)
				assert.Equal(t, SideMemo, side, k)
			}
		}
	}
	for _, key := range []string{"x:latchkey_flight_value", "{x}:latchkey_flight", "{x}:latchkey_other_value"} {
		_, side := Owner(key)
		assert.Equal(t, NoSide, side, key)
	}
}

// The keys of a job lead back to it, whatever its name.
func TestJob(t *testing.T) {
	const fire = "1800000000000"
	for _, job := range []string{
		"report", "{report}", "a b{c}d", "{a}{}", "{}", "{}}", "x}", "x{", "{x", "a{}", "{a}b{}", ":latchkey_runs", "{x}:latchkey_runs", "{x}:latchkey_once:1",
		"{x}:latchkey_runs{}", "two\nlines", "\xff", "1",
	} {
		name, ok := Job(Runs(job))
		assert.True(t, ok, job)
		assert.Equal(t, job, name)
		owner, side := Owner(Run(job, fire))
		assert.Equal(t, job, owner)
		assert.Equal(t, SideRun, side)
		for _, f := range []string{fire, ""} {
			name, at, ok := JobOf(Fire(job, f))
			assert.True(t, ok, job)
			assert.Equal(t, job, name)
			assert.Equal(t, f, at)
		}
		if CheckSlots(job, []string{job, Runs(job)}) == nil {
			assert.Equal(t, Slot(job), Slot(Fire(job, fire)), job)
		}
	}
	for _, key := range []string{"", "latchkey_runs", ":latchkey_runs", "report:latchkey_runs", "app:{x}:latchkey_runs{}", Run("report", fire)} {
		_, ok := Job(key)
		assert.False(t, ok, key)
	}
	for _, key := range []string{"", ":latchkey_once", "report:latchkey_once:1", "{report}:latchkey_once:", Runs("report")} {
		_, _, ok := JobOf(key)
		assert.False(t, ok, key)
	}
}
