package interop

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// releases of Redisson that the tests run, newest first. The layout or the
// signalling has changed between each two of them.
var releases = []version{"4.7.0", "3.52.0", "3.27.2", "3.17.7"}

// A version of Redisson, as Maven Central has it.
type version string

// since reports whether v is other or later.
func (v version) since(other version) bool { return v.compare(other) >= 0 }

func (v version) compare(other version) int {
	var a, b [3]int
	_, _ = fmt.Sscanf(string(v), "%d.%d.%d", &a[0], &a[1], &a[2])
	_, _ = fmt.Sscanf(string(other), "%d.%d.%d", &b[0], &b[1], &b[2])
	return slices.CompareFunc(a[:], b[:], cmp.Compare[int])
}

// The releases in which Redisson got what the older ones lack.
const (
	hasFenced         version = "3.19.0" // RFencedLock
	hasPermitCounts   version = "3.19.1" // getPermits, acquiredPermits, setPermits
	hasManyPermits    version = "3.23.4" // several permits at a time
	hasShardedProbe   version = "3.28.0" // sharded pub/sub in a cluster, found out reliably
	hasRWMapper       version = "3.27.0" // NameMapper once, not twice, for a read-write lock (at the latest)
	hasFairSleep      version = "3.32.0" // a fair waiter always looks again when the lease is over
	hasShardedMode    version = "3.29.0" // ... and the setting for it
	hasGroupLock      version = "3.38.0" // getMultiLock(group, values)
	hasLeaseTime      version = "3.41.0" // RPermitExpirableSemaphore.getLeaseTime; batches released all or none
	hasFairWait       version = "3.46.0" // fairLockWaitTimeout
	hasFairMapper     version = "3.52.0" // NameMapper for the queue of a fair lock
	hasReleaseIfExist version = "4.0.0"  // RSemaphore.releaseIfExists
	hasNonReentrant   version = "4.4.0"  // getNonReentrantLock
)

// forReleases runs f for each release that $INTEROP asks for, one after another.
func forReleases(t *testing.T, f func(t *testing.T, v version)) {
	t.Helper()
	chosen := releases[:1]
	switch asked := os.Getenv("INTEROP"); asked {
	case "":
	case "none":
		t.Skip("INTEROP=none")
	case "all":
		chosen = releases
	default:
		chosen = nil
		for v := range strings.SplitSeq(asked, ",") {
			chosen = append(chosen, version(v))
		}
	}
	needTools(t)
	for _, v := range chosen {
		t.Run(string(v), func(t *testing.T) { f(t, v) })
	}
}

func TestVersionOrder(t *testing.T) {
	require.True(t, slices.IsSortedFunc(releases, func(a, b version) int { return b.compare(a) }), "releases: newest first")
	require.True(t, version("3.52.0").since("3.9.1"))
	require.True(t, version("4.0.0").since("4.0.0"))
	require.False(t, version("3.27.2").since(hasShardedProbe))
}
