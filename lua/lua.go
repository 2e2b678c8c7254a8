package lua

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// A Script is the text of one script and the name under which Redis caches it.
//
// It is not a go-redis Script because that type sends with go-redis's own
// retries, and latchkey sends each script once and decides about retries itself.
type Script struct {
	// Name is the file, without its ending: "rlock/acquire".
	Name string
	// Source is the text that EVAL takes.
	Source string
	// SHA is the lower-case hex SHA-1 of Source, which EVALSHA takes.
	SHA string

	arg any // SHA, ready to be sent
}

// Arg returns SHA as an argument, which costs no allocation.
func (s *Script) Arg() any { return s.arg }

func newScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	return &Script{Name: name, Source: source, SHA: sha, arg: sha}
}

// The scripts of the reentrant lock.
var (
	//go:embed rlock/acquire.lua
	rlockAcquire string
	//go:embed rlock/release.lua
	rlockRelease string
	//go:embed rlock/renew.lua
	rlockRenew string
	//go:embed rlock/force.lua
	rlockForce string
	//go:embed rlock/state.lua
	rlockState string

	// RLockAcquire takes the lock; see rlock/acquire.lua for its contract.
	RLockAcquire = newScript("rlock/acquire", rlockAcquire)
	// RLockRelease brings a hold count down; see rlock/release.lua.
	RLockRelease = newScript("rlock/release", rlockRelease)
	// RLockRenew extends the leases of many locks; see rlock/renew.lua.
	RLockRenew = newScript("rlock/renew", rlockRenew)
	// RLockForce frees the lock whoever holds it; see rlock/force.lua.
	RLockForce = newScript("rlock/force", rlockForce)
	// RLockState reads the lock; see rlock/state.lua.
	RLockState = newScript("rlock/state", rlockState)
)

// The scripts that only look.
var (
	//go:embed inspect/lock.lua
	inspectLock string
	//go:embed inspect/labels.lua
	inspectLabels string

	// InspectLock tells who holds a lock; see inspect/lock.lua.
	InspectLock = newScript("inspect/lock", inspectLock)
	// InspectLabels reads labels; see inspect/labels.lua.
	InspectLabels = newScript("inspect/labels", inspectLabels)
)
