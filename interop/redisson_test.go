package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// TestRedisson runs everything on a single server, release by release.
func TestRedisson(t *testing.T) {
	forReleases(t, func(t *testing.T, v version) {
		r := newRig(t, v, latchkey.PubSubAuto, redistest.Start(t))
		testObjects(t, r)
		testStress(t, r)
	})
}

// TestCluster runs everything in a cluster, release by release.
func TestCluster(t *testing.T) {
	forReleases(t, func(t *testing.T, v version) {
		r := newRig(t, v, latchkey.PubSubBoth, redistest.StartCluster(t, 3).Nodes...)
		testModes(t, r)
		testObjects(t, r)
	})
}

// testObjects goes through all objects.
func testObjects(t *testing.T, r *rig) {
	t.Run("wake-ups", func(t *testing.T) { testWakeUps(t, r, r.client(t)) })
	t.Run("side by side", func(t *testing.T) {
		testLocks(t, r)
		testFair(t, r)
		testReadWrite(t, r)
		testFenced(t, r)
		testSemaphores(t, r)
		testPermits(t, r)
		testMulti(t, r)
		testGroup(t, r)
		testMapper(t, r)
	})
}

// What Redisson uses in a cluster that has sharded pub/sub.
const (
	usesPlain   = "plain"
	usesSharded = "sharded"
	usesEither  = "either" // found out by a probe that depends on the node it hits
)

func (v version) uses() string {
	switch {
	case v.since(hasShardedProbe):
		return usesSharded
	case v.since("3.22.0"):
		return usesEither
	}
	return usesPlain
}

// testModes finds out in which mode the wake-ups of each side reach the other one.
func testModes(t *testing.T, r *rig) {
	for mode, name := range map[latchkey.PubSubMode]string{
		latchkey.PubSubAuto: "auto", latchkey.PubSubPlain: "plain", latchkey.PubSubSharded: "sharded", latchkey.PubSubBoth: "both",
	} {
		t.Run("mode "+name, func(t *testing.T) {
			toGo, toJava := heard(t, r, mode)
			t.Logf("Redisson %s, latchkey with %s: wake-ups reach Go %v, Java %v", r.version, name, toGo, toJava)
			uses := r.version.uses()
			if name == "auto" {
				name = usesSharded // the servers have it
			}
			switch {
			case name == "both", name == uses:
				require.True(t, toGo && toJava, "Redisson %s uses %s", r.version, uses)
			case name == usesPlain && uses == usesSharded, name == usesSharded && uses == usesPlain:
				// Java may have looked again at that moment by itself, but not Go.
				require.False(t, toGo, "Redisson %s uses %s, which is more than the documentation says", r.version, uses)
			}
		})
	}
}

// heard reports whether a Java release wakes a Go waiter in that mode, and the
// other way round. A waiter that hears nothing asks by itself, but later.
func heard(t *testing.T, r *rig, mode latchkey.PubSubMode) (toGo, toJava bool) {
	t.Helper()
	const soonEnough = 400 * time.Millisecond
	c := r.client(t, latchkey.WithPubSub(mode), latchkey.WithRecheck(2*time.Second), latchkey.WithWatchdogTimeout(fastWatchdog))
	name := r.name(t)
	java, golang := javaLocker(r.fast.thread(), "rlock", name), goLocker(rlock.New(c, name))
	took := func(a, b side) time.Duration {
		at(t, a, a.take(t))
		woken := b.take(t)
		r.subscribed(t, name)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		a.give(t)
		d := at(t, b, woken).Sub(start)
		b.give(t)
		return d
	}
	toGoTook, toJavaTook := took(java, golang), took(golang, java)
	t.Log(fmt.Sprint("woken after: Go ", toGoTook, ", Java ", toJavaTook))
	return toGoTook < soonEnough, toJavaTook < soonEnough
}
